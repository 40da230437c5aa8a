// Memory that only grows and is freed by the destructor, because fresh pages would cost more than small
// kernels do.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace tile::cpu {

class AlignedMemory {
 public:
  explicit AlignedMemory(size_t alignment = 64) : alignment_(alignment) {}
  char* data() const { return memory_.get(); }
  size_t size() const { return size_; }
  // If it grows, the previous contents are lost.
  char* at_least(size_t bytes) {
    if (bytes <= size_) return data();
    size_ = 0;
    bytes = (bytes + alignment_ - 1) / alignment_ * alignment_;
    memory_.reset(static_cast<char*>(std::aligned_alloc(alignment_, bytes)));
    if (!memory_) throw std::bad_alloc();
    size_ = bytes;
    return data();
  }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory_;
  size_t size_ = 0, alignment_;
};

}  // namespace tile::cpu
