// The location, budget and contents of the disk cache.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "runtime/cache_files.h"
#include "runtime/disk_cache.h"
#include "support/env.h"
#include "support/error.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

std::string folder_from_environment() {
  if (std::string given = environment("TILE_CACHE_DIR"); !given.empty()) return given;
  // The XDG specification requires that a relative path is ignored.
  if (const std::string xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/tile_ops";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/tile_ops";
}

uint64_t budget_from_environment() {
  const std::string text = environment("TILE_CACHE_MB");
  if (text.empty()) return DiskCache::Options{}.budget;
  uint64_t megabytes = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, megabytes);
  if (stop != end || error != std::errc() || megabytes >> 40)
    fail(ErrorKind::value, "TILE_CACHE_MB=", text,
         ": it is not a number of MiB; unset it or set it to one, 0 for no cache on disk");
  return megabytes << 20;
}

std::string reason(const std::string& what, int code) { return what + ": " + std::strerror(code); }

}  // namespace

DiskCache::Options DiskCache::options() {
  std::string folder = folder_from_environment();
  std::error_code ignored;
  if (!folder.empty()) folder = fs::absolute(folder, ignored).string();
  return {.folder = std::move(folder), .budget = budget_from_environment()};
}

const DiskCache& DiskCache::get() {
  static const DiskCache& cache = *new DiskCache(options());
  return cache;
}

std::string DiskCache::why_unusable() const {
  if (options_.folder.empty()) return "TILE_CACHE_DIR, XDG_CACHE_HOME and HOME are unset";
  std::error_code failed;
  fs::create_directories(fs::path(options_.folder).parent_path(), failed);
  if (mkdir(options_.folder.c_str(), 0700) && errno != EEXIST)
    return reason("the folder cannot be made", failed ? failed.value() : errno);
  struct stat status;
  if (stat(options_.folder.c_str(), &status)) return reason("the folder cannot be read", errno);
  if (!S_ISDIR(status.st_mode)) return "it is not a folder";
  if (status.st_uid != geteuid()) return "the folder belongs to another user";
  if (access(options_.folder.c_str(), W_OK | X_OK)) return reason("the folder cannot be written", errno);
  return "";
}

std::vector<std::string> DiskCache::shards() const {
  std::vector<std::string> all;
  for (const char digit : std::string("0123456789abcdef"))
    if (!options_.folder.empty()) all.push_back(options_.folder + "/" + digit);
  return all;
}

std::vector<DiskCache::Key> DiskCache::keys() const {
  std::vector<Key> all;
  for (const std::string& shard : shards())
    for (const CacheFile& file : cache_files(shard)) {
      if (file.temporary) continue;
      const std::string name = fs::path(file.path).stem().string();  // hex() of the key
      Key key;
      for (size_t i = 0; i < key.size(); ++i)
        std::from_chars(name.data() + 2 * i, name.data() + 2 * i + 2, key[i], 16);
      all.push_back(key);
    }
  std::sort(all.begin(), all.end());
  return all;
}

DiskCache::Info DiskCache::info() const {
  Info info{.folder = options_.folder, .unusable = why_unusable(), .budget = options_.budget};
  if (info.unusable.empty() && !options_.budget) info.unusable = "TILE_CACHE_MB is 0";
  for (const std::string& shard : shards())
    for (const CacheFile& file : cache_files(shard)) {
      info.entries += !file.temporary;
      info.bytes += file.bytes;
    }
  return info;
}

DiskCache::Info DiskCache::clear() const {
  Info removed{.folder = options_.folder, .unusable = why_unusable(), .budget = options_.budget};
  if (!removed.unusable.empty()) return removed;
  for (const std::string& shard : shards()) {
    for (const CacheFile& file : cache_files(shard)) {
      if (unlink(file.path.c_str())) continue;
      removed.entries += !file.temporary;
      removed.bytes += file.bytes;
    }
    rmdir(shard.c_str());  // fails if the folder contains other files
  }
  return removed;
}

}  // namespace tile
