// Compiles CUDA C++ source to a cubin: from the disk cache, otherwise with NVRTC, which is loaded only then.
#pragma once
#include <atomic>
#include <future>
#include <map>
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
  static CubinCompiler& get();  // the instance of the process: DiskCache::get(), nvrtc_paths()

  // May be called from any thread. While one compiles code, others that request the same wait for it.
  // `progress` begins when the code is not on disk.
  CompileResult compile(const CompileRequest& request, Progress* progress = nullptr);

  // Loads NVRTC at the first call. If that fails, each call tries again and throws the error.
  const Nvrtc& nvrtc();
  bool nvrtc_loaded() const { return loaded_ != nullptr; }

 private:
  std::string nvrtc_build();
  CompileResult compile_once(const DiskCache::Key& key, const CompileRequest& request);
  DiskCache::Key key_of(const CompileRequest& request);

  const DiskCache& cache_;
  NvrtcPaths (*paths_)();
  std::mutex mutex_;
  std::unique_ptr<const Nvrtc> nvrtc_;
  std::atomic<const Nvrtc*> loaded_ = nullptr;
  std::mutex build_mutex_;
  std::string build_;
  std::mutex running_mutex_;
  std::map<DiskCache::Key, std::shared_future<CompileResult>> running_;
};

// Convert a result to the bytes that the cache stores, and back. The latter returns none if the bytes are
// malformed.
std::string to_bytes(const CompileResult& result);
std::optional<CompileResult> result_from_bytes(std::string_view bytes);

}  // namespace tile
