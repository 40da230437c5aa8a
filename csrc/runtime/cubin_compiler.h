// CUDA C++ text to cubin: from the disk cache, else by NVRTC, which is loaded only then.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/nvrtc.h"
#include "runtime/disk_cache.h"
#include "support/progress.h"

namespace tile {

class CubinCompiler {
 public:
  CubinCompiler(const DiskCache& cache, NvrtcPaths (*paths)()) : cache_(cache), paths_(paths) {}
  static CubinCompiler& get();  // the process's: DiskCache::get(), nvrtc_paths()

  // From any thread. Two threads that ask for the same at once both compile it. `progress` begins where it
  // is not on disk.
  CompileResult compile(const CompileRequest& request, Progress* progress = nullptr);

  // Loads it where it is not yet. An error is thrown anew at each call, until NVRTC is there.
  const Nvrtc& nvrtc();
  bool nvrtc_loaded() const { return loaded_ != nullptr; }

 private:
  std::string nvrtc_build();
  DiskCache::Key key_of(const CompileRequest& request);

  const DiskCache& cache_;
  NvrtcPaths (*paths_)();
  std::mutex mutex_;
  std::unique_ptr<const Nvrtc> nvrtc_;
  std::atomic<const Nvrtc*> loaded_ = nullptr;
  std::mutex build_mutex_;
  std::string build_;
};

// Convert a result to the bytes that the cache stores, and back; none if the bytes are malformed.
std::string to_bytes(const CompileResult& result);
std::optional<CompileResult> result_from_bytes(std::string_view bytes);

}  // namespace tile
