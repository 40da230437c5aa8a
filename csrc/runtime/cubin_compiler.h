// Compiles CUDA C++ source to a cubin: from packs or the disk cache, otherwise with NVRTC, which is loaded
// only then.
#pragma once
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/nvrtc.h"
#include "runtime/disk_cache.h"
#include "runtime/packs.h"
#include "support/progress.h"

namespace tile {

// The hash of all that makes the code of a request: source, headers, options, names and arch. It leaves out
// the NVRTC that compiles it, because any makes code for the same source.
Sha256::Digest source_key(const CompileRequest& request);

// Returns false if an option names files, whose contents are not part of the key.
bool is_self_contained(const CompileRequest& request);

// Compiled code with what packs know of it.
struct StoredCubin {
  Sha256::Digest key;  // source_key()
  int arch = 0;
  int cuda = 0;      // version of NVRTC: 13000 is 13.0
  std::string data;  // to_bytes() of the result
};

class CubinCompiler {
 public:
  CubinCompiler(const DiskCache& cache, NvrtcPaths (*paths)(), Packs* packs = nullptr)
      : cache_(cache), paths_(paths), packs_(packs) {}
  // The instance of the process: DiskCache::get(), nvrtc_paths(), Packs::get().
  static CubinCompiler& get();

  // May be called from any thread. While one compiles code, others that request the same wait for it.
  // `progress` begins when the code is not on disk. A pack may hold the log alone, of configurations that are
  // not chosen: `with_code` passes over that.
  CompileResult compile(const CompileRequest& request, Progress* progress = nullptr, bool with_code = false);

  // The CUDA version of the driver that will load the code: 12030 is 12.3. It cannot load code of a newer
  // major version.
  void set_driver(int version) { driver_ = version; }

  // While it collects, whoever compiles a kernel adds its code, for a pack.
  void set_collecting(bool on) { collects_ = on; }
  bool collects() const { return collects_; }
  // `with_code`: otherwise only the log is kept.
  void collect(const CompileRequest& request, const CompileResult& result, bool with_code = true);
  std::vector<StoredCubin> take_collected();

  // Returns the code in the disk cache: its keys there, and an entry, or none if it is no code.
  std::vector<DiskCache::Key> keys_on_disk() const { return cache_.keys(); }
  std::optional<StoredCubin> on_disk(const DiskCache::Key& key) const;

  // Loads NVRTC at the first call. If that fails, each call tries again and throws the error.
  const Nvrtc& nvrtc();
  bool nvrtc_loaded() const { return loaded_ != nullptr; }

 private:
  std::string nvrtc_build();
  CompileResult compile_once(const DiskCache::Key& key, const Sha256::Digest& source,
                             const CompileRequest& request);
  DiskCache::Key key_of(const Sha256::Digest& source, const CompileRequest& request);
  std::optional<CompileResult> in_packs(const Sha256::Digest& source, const CompileRequest& request,
                                        bool with_code) const;

  const DiskCache& cache_;
  NvrtcPaths (*paths_)();
  Packs* packs_;
  std::atomic<int> driver_ = 0;
  std::atomic<bool> collects_ = false;
  std::mutex collected_mutex_;
  std::vector<StoredCubin> collected_;
  std::mutex mutex_;
  std::unique_ptr<const Nvrtc> nvrtc_;
  std::atomic<const Nvrtc*> loaded_ = nullptr;
  std::mutex build_mutex_;
  std::string build_;
  std::mutex running_mutex_;
  std::map<DiskCache::Key, std::shared_future<CompileResult>> running_;
};

// Returns "pack", "cache" or "NVRTC".
const char* origin(const CompileResult& result);

// Convert a result to the bytes that packs store, and back. The latter returns none if the bytes are
// malformed.
std::string to_bytes(const CompileResult& result);
std::optional<CompileResult> result_from_bytes(std::string_view bytes);

}  // namespace tile
