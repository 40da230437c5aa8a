// Keys of cubins, where they are looked for, and how the version of NVRTC is determined without loading
// NVRTC.
#include "runtime/cubin_compiler.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "support/byte_fields.h"
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

// The cache also holds bytes of others, so its entries of code begin with a field of their own.
constexpr std::string_view kind_of_entry = "cubin 2";

std::string to_bytes(const StoredCubin& stored) {
  std::string bytes;
  put_field(bytes, kind_of_entry);
  put_field(bytes, {reinterpret_cast<const char*>(stored.key.data()), stored.key.size()});
  put_field(bytes, stored.arch);
  put_field(bytes, stored.cuda);
  return bytes + stored.data;
}

std::optional<StoredCubin> stored_from_bytes(std::string_view bytes) {
  std::string kind, key;
  StoredCubin stored;
  if (!take_field(bytes, kind) || kind != kind_of_entry || !take_field(bytes, key) ||
      key.size() != stored.key.size() || !take_field(bytes, stored.arch) || !take_field(bytes, stored.cuda))
    return std::nullopt;
  std::copy(key.begin(), key.end(), stored.key.begin());
  stored.data = bytes;
  return stored;
}

}  // namespace

Sha256::Digest source_key(const CompileRequest& request) {
  Sha256 key;
  key.add_field("source 1");
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

bool is_self_contained(const CompileRequest& request) {
  const auto names_files = [](std::string_view option) {
    for (const char* word : {"-I", "--include-path", "-include", "--pre-include"})
      if (option.starts_with(word)) return true;
    return false;
  };
  return std::none_of(request.options.begin(), request.options.end(), names_files);
}

const char* origin(const CompileResult& result) {
  return result.from_pack ? "pack" : result.from_disk ? "cache" : "NVRTC";
}

std::string to_bytes(const CompileResult& result) {
  std::string bytes;
  put_field(bytes, result.cubin);
  put_field(bytes, result.log);
  for (const std::string& name : result.lowered) put_field(bytes, name);
  return bytes;
}

std::optional<CompileResult> result_from_bytes(std::string_view bytes) {
  CompileResult result;
  if (!take_field(bytes, result.cubin) || !take_field(bytes, result.log)) return std::nullopt;
  while (!bytes.empty())
    if (!take_field(bytes, result.lowered.emplace_back())) return std::nullopt;
  return result;
}

CubinCompiler& CubinCompiler::get() {
  static CubinCompiler& compiler = *new CubinCompiler(DiskCache::get(), nvrtc_paths, &Packs::get());
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

DiskCache::Key CubinCompiler::key_of(const Sha256::Digest& source, const CompileRequest& request) {
  Sha256 key;
  key.add_field(kind_of_entry);
  key.add_field(nvrtc_build());
  key.add({reinterpret_cast<const char*>(source.data()), source.size()});
  for (const std::string& folder : request.toolkit_folders) key.add_field(folder);
  return key.digest();
}

std::optional<CompileResult> CubinCompiler::in_packs(const Sha256::Digest& source,
                                                     const CompileRequest& request, bool with_code) const {
  if (!packs_ || !is_self_contained(request)) return std::nullopt;
  const auto found = packs_->find(source, request.arch, driver_);
  if (!found) return std::nullopt;
  auto result = result_from_bytes(found->data);
  if (!result || result->lowered.size() != request.names.size() || (with_code && result->cubin.empty()))
    return std::nullopt;
  result->cuda = static_cast<int>(found->cuda);
  result->from_pack = true;
  return result;
}

void CubinCompiler::collect(const CompileRequest& request, const CompileResult& result, bool with_code) {
  if (!is_self_contained(request)) return;
  CompileResult kept = result;
  if (!with_code) kept.cubin.clear();
  StoredCubin stored{source_key(request), request.arch, result.cuda, to_bytes(kept)};
  std::lock_guard lock(collected_mutex_);
  collected_.push_back(std::move(stored));
}

std::vector<StoredCubin> CubinCompiler::take_collected() {
  std::lock_guard lock(collected_mutex_);
  return std::exchange(collected_, {});
}

std::optional<StoredCubin> CubinCompiler::on_disk(const DiskCache::Key& key) const {
  const auto bytes = cache_.load(key);
  return bytes ? stored_from_bytes(*bytes) : std::nullopt;
}

CompileResult CubinCompiler::compile_once(const DiskCache::Key& key, const Sha256::Digest& source,
                                          const CompileRequest& request) {
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
    // Where a header is not part of the key, a pack made from the cache would not notice a change of it.
    const int arch = is_self_contained(request) ? request.arch : 0;
    cache_.store(key, to_bytes(StoredCubin{source, arch, compiled.cuda, to_bytes(compiled)}));
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

CompileResult CubinCompiler::compile(const CompileRequest& request, Progress* progress, bool with_code) {
  const auto start = std::chrono::steady_clock::now();
  const auto timed = [&](CompileResult result) {
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  };
  const Sha256::Digest source = source_key(request);
  if (auto result = in_packs(source, request, with_code)) return timed(*std::move(result));
  const DiskCache::Key key = key_of(source, request);
  if (const auto stored = on_disk(key))
    if (auto result = result_from_bytes(stored->data)) {
      result->cuda = stored->cuda;
      result->from_disk = true;
      return timed(*std::move(result));
    }
  if (progress) progress->begin();
  return compile_once(key, source, request);
}

}  // namespace tile
