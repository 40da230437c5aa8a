// The files of the disk cache: sixteen folders by the first digit of the key, each with a sixteenth of the
// budget, so that a store scans only one of them.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tile {

constexpr uint64_t shard_count = 16;
constexpr const char* entry_suffix = ".bin";
constexpr const char* temporary_suffix = ".tmp";  // an entry that is still being written

struct FileHandle {
  explicit FileHandle(int n) : number(n) {}
  ~FileHandle() {
    if (number >= 0) close(number);
  }
  FileHandle(const FileHandle&) = delete;
  explicit operator bool() const { return number >= 0; }
  int number;
};

bool write_all(ssize_t (*write)(int, const void*, size_t), int file, std::string_view bytes);

struct CacheFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t used = 0;  // nanoseconds since 1970
  bool temporary = false;
};
// Lists the files of one shard, excluding files that do not belong to the cache.
std::vector<CacheFile> cache_files(const std::string& shard);

// Removes the least recently used entries, and the temporary files of writers that were killed.
void keep_within(const std::string& shard, uint64_t budget);

}  // namespace tile
