// Entries of the disk cache: files with a checksum in the header, put into place by a rename.
#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "runtime/cache_files.h"
#include "support/hash.h"
#include "support/text.h"

namespace tile {
namespace {

struct Header {
  char magic[8] = {'t', 'i', 'l', 'e', 'o', 'p', 's', '1'};
  DiskCache::Key key;
  uint64_t size;
  Hash128 checksum;
};
static_assert(sizeof(Header) == 64);

Header header_of(const DiskCache::Key& key, std::string_view bytes) {
  Header header;
  header.key = key;
  header.size = bytes.size();
  header.checksum = hash128(bytes);
  return header;
}

bool read_all(int file, char* bytes, size_t size) {
  while (size) {
    const ssize_t n = read(file, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n, size -= static_cast<size_t>(n);
  }
  return true;
}

// Returns the entry in an open file, or nothing if it is damaged.
std::optional<std::string> read_entry(int file, uint64_t size, const DiskCache::Key& key) {
  Header found;
  if (size < sizeof found || !read_all(file, reinterpret_cast<char*>(&found), sizeof found))
    return std::nullopt;
  if (found.size != size - sizeof found) return std::nullopt;
  std::string bytes(found.size, '\0');
  if (!read_all(file, bytes.data(), bytes.size())) return std::nullopt;
  const Header expected = header_of(key, bytes);
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  return bytes;
}

// Marks an entry as used, at most once a minute, so that most loads do not write.
void touch(int file, const struct stat& status) {
  if (time(nullptr) - status.st_mtime > 60) futimens(file, nullptr);
}

}  // namespace

std::string DiskCache::shard_of(const Key& key) const { return options_.folder + "/" + hex(key)[0]; }
std::string DiskCache::path_of(const Key& key) const { return shard_of(key) + "/" + hex(key) + entry_suffix; }

std::optional<std::string> DiskCache::load(const Key& key) const try {
  if (options_.folder.empty() || !options_.budget) return std::nullopt;
  const std::string path = path_of(key);
  // Non-blocking, because the path may be a pipe.
  const FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status;
  if (!file || fstat(file.number, &status)) return std::nullopt;
  // A file of another user is ignored, because its code would run with this user's rights.
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) return std::nullopt;
  auto bytes = read_entry(file.number, static_cast<uint64_t>(status.st_size), key);
  if (bytes)
    touch(file.number, status);
  else
    unlink(path.c_str());
  return bytes;
} catch (const std::exception&) {  // out of memory
  return std::nullopt;
}

void DiskCache::store(const Key& key, std::string_view bytes) const try {
  const Header header = header_of(key, bytes);
  const uint64_t budget = options_.budget / shard_count;
  if (bytes.size() + sizeof header > budget || !why_unusable().empty()) return;
  const std::string shard = shard_of(key);
  mkdir(shard.c_str(), 0700);
  if (write_file(path_of(key), {reinterpret_cast<const char*>(&header), sizeof header}, bytes))
    keep_within(shard, budget);
} catch (const std::exception&) {
}

bool DiskCache::write_file(const std::string& path, std::string_view header, std::string_view bytes) const {
  // A random name, because process ids repeat on machines that share a folder.
  std::random_device random;
  const std::string temporary = str(path, ".", std::hex, random(), random(), temporary_suffix);
  bool written;
  {
    const FileHandle file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return false;
    written = write_all(options_.write, file.number, header) && write_all(options_.write, file.number, bytes);
  }
  // Not synced: after a power failure, the checksum detects a damaged entry.
  written = written && rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) unlink(temporary.c_str());
  return written;
}

}  // namespace tile
