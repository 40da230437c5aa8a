// Keys of cubins, and how the version of NVRTC is determined without loading NVRTC.
#include "runtime/cubin_compiler.h"

#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "support/text.h"

namespace tile {
namespace {

struct FileIdentity {
  std::string path;
  int64_t bytes = 0, changed = 0;
};
std::optional<FileIdentity> identity(const std::string& name) {
  std::error_code missing;
  const std::string path = std::filesystem::canonical(name, missing).string();
  struct stat status;
  if (missing || stat(path.c_str(), &status)) return std::nullopt;
  return FileIdentity{path, status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void put(std::string& bytes, std::string_view field) {
  const uint64_t size = field.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += field;
}

// Removes one field from the front.
bool take(std::string_view& bytes, std::string& field) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return false;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > bytes.size()) return false;
  field = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

}  // namespace

std::string to_bytes(const CompileResult& result) {
  std::string bytes;
  put(bytes, result.cubin);
  put(bytes, result.log);
  for (const std::string& name : result.lowered) put(bytes, name);
  return bytes;
}

std::optional<CompileResult> result_from_bytes(std::string_view bytes) {
  CompileResult result;
  if (!take(bytes, result.cubin) || !take(bytes, result.log)) return std::nullopt;
  while (!bytes.empty())
    if (!take(bytes, result.lowered.emplace_back())) return std::nullopt;
  return result;
}

CubinCompiler& CubinCompiler::get() {
  static CubinCompiler& compiler = *new CubinCompiler(DiskCache::get(), nvrtc_paths);
  return compiler;
}

const Nvrtc& CubinCompiler::nvrtc() {
  if (const Nvrtc* loaded = loaded_.load(std::memory_order_acquire)) return *loaded;
  std::lock_guard lock(mutex_);
  if (!nvrtc_) {
    nvrtc_ = std::make_unique<const Nvrtc>(paths_());
    loaded_.store(nvrtc_.get(), std::memory_order_release);
  }
  return *nvrtc_;
}

// Returns text such as "13.0, 109338064 bytes". Loading NVRTC takes longer than loading a cubin from disk, so
// the version of the file that would be loaded is also kept in the cache.
std::string CubinCompiler::nvrtc_build() {
  std::lock_guard lock(build_mutex_);
  if (!build_.empty()) return build_;
  std::optional<FileIdentity> expected;
  if (const auto candidates = paths_().candidates(); !candidates.empty() && !nvrtc_loaded())
    expected = identity(candidates.front());
  Sha256 key;
  if (expected) {
    key.add_field("version of NVRTC");
    key.add_field(str(expected->path, " ", expected->bytes, " ", expected->changed));
    if (const auto known = cache_.load(key.digest())) return build_ = *known;
  }
  const auto file = identity(nvrtc().path());
  build_ = str(nvrtc().version(), ", ", file ? file->bytes : 0, " bytes");
  if (expected && file && file->path == expected->path) cache_.store(key.digest(), build_);
  return build_;
}

DiskCache::Key CubinCompiler::key_of(const CompileRequest& request) {
  Sha256 key;
  key.add_field("cubin 1");
  key.add_field(nvrtc_build());
  key.add_field(str(request.arch, " ", request.headers.size(), " ", request.options.size()));
  key.add_field(request.source);
  key.add_field(request.file);
  for (const auto& [name, text] : request.headers) {
    key.add_field(name);
    key.add_field(text);
  }
  for (const std::string& option : request.options) key.add_field(option);
  for (const std::string& name : request.names) key.add_field(name);
  return key.digest();
}

CompileResult CubinCompiler::compile_once(const DiskCache::Key& key, const CompileRequest& request) {
  std::promise<CompileResult> made;
  std::shared_future<CompileResult> result;
  bool is_first;
  {
    std::lock_guard lock(running_mutex_);
    const auto [at, inserted] = running_.try_emplace(key);
    if (inserted) at->second = made.get_future().share();
    result = at->second;
    is_first = inserted;
  }
  if (!is_first) return result.get();
  try {
    CompileResult compiled = nvrtc().compile(request);
    cache_.store(key, to_bytes(compiled));
    made.set_value(std::move(compiled));
  } catch (...) {
    made.set_exception(std::current_exception());
  }
  {
    std::lock_guard lock(running_mutex_);
    running_.erase(key);
  }
  return result.get();
}

CompileResult CubinCompiler::compile(const CompileRequest& request, Progress* progress) {
  const auto start = std::chrono::steady_clock::now();
  const DiskCache::Key key = key_of(request);
  if (const auto bytes = cache_.load(key))
    if (auto result = result_from_bytes(*bytes)) {
      result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      result->from_disk = true;
      return *std::move(result);
    }
  if (progress) progress->begin();
  return compile_once(key, request);
}

}  // namespace tile
