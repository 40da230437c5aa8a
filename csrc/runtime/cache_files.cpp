// Lists, writes and evicts the files of the disk cache.
#include "runtime/cache_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

namespace tile {
namespace {

namespace fs = std::filesystem;

constexpr int64_t second = 1'000'000'000;
constexpr int64_t abandoned = 3600 * second;  // a writer never takes this long

bool is_key(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

bool write_all(ssize_t (*write)(int, const void*, size_t), int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::vector<CacheFile> cache_files(const std::string& shard) {
  std::vector<CacheFile> files;
  std::error_code ended;
  for (fs::directory_iterator entry(shard, ended), end; !ended && entry != end; entry.increment(ended)) {
    const std::string path = entry->path().string(), name = entry->path().filename().string();
    const bool temporary = name.ends_with(temporary_suffix);
    if (!is_key(std::string_view(name).substr(0, 64))) continue;
    if (!temporary && name.substr(64) != entry_suffix) continue;
    struct stat status;
    if (lstat(path.c_str(), &status) || !S_ISREG(status.st_mode)) continue;  // another process has removed it
    files.push_back({path, static_cast<uint64_t>(status.st_size),
                     status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec, temporary});
  }
  return files;
}

void keep_within(const std::string& shard, uint64_t budget) {
  std::vector<CacheFile> files = cache_files(shard);
  uint64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  const int64_t now = time(nullptr) * second;
  // Makes some extra room, so that most stores need not remove anything.
  const uint64_t wanted = bytes > budget ? budget - budget / 8 : bytes;
  for (const CacheFile& file : files) {
    const bool old = file.temporary && now - file.used > abandoned;
    if (!old && (file.temporary || bytes <= wanted)) continue;
    unlink(file.path.c_str());
    bytes -= file.bytes;
  }
}

}  // namespace tile
