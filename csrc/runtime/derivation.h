// The derivation that the launches of a thread take part in: forward mode, which computes tangents beside
// them, or the record that reverse mode makes of them.
#pragma once
#include <atomic>
#include <string_view>

namespace tile {

class LaunchRecord;
class TangentMemory;

class Derivation {
 public:
  // A thread has at most one, during its lifetime.
  Derivation();
  virtual ~Derivation();
  Derivation(const Derivation&) = delete;

  // Called for the storage of each tensor that becomes an array. Returns where its memory begins, or where
  // that of a meta tensor would begin.
  virtual char* note(void* storage /* c10::StorageImpl* */) = 0;
  // One of these is not null.
  virtual TangentMemory* tangents() { return nullptr; }
  virtual LaunchRecord* record() { return nullptr; }
  // Called before a kernel that cannot take part runs. Throws an error, unless the kernel may run beside it.
  virtual void refuse(std::string_view what) const = 0;

  // During its lifetime the thread's launches take no part.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    Derivation* const paused_;
  };

  // Returns null if there is none. This costs a launch one load.
  static Derivation* of_thread() { return count_.load(std::memory_order_relaxed) ? find() : nullptr; }
  static void require_none(std::string_view what) {
    if (const Derivation* derivation = of_thread()) derivation->refuse(what);
  }

 private:
  static Derivation* find();
  static std::atomic<int> count_;
};

}  // namespace tile
