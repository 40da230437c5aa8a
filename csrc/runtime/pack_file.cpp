// Maps packs into memory, checks them and writes them.
#include "runtime/pack_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>

#include "support/error.h"

namespace tile {
namespace {

std::string_view bytes_of(std::span<const PackEntry> entries) {
  return {reinterpret_cast<const char*>(entries.data()), entries.size_bytes()};
}

}  // namespace

// Non-blocking, because the path may be a pipe.
PackFile::PackFile(std::string path)
    : path_(std::move(path)), file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  const auto refuse = [&](const auto&... why) {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    fail(ErrorKind::value, path_, ": ", why...);
  };
  const auto refuse_as_damaged = [&](const auto&... why) {
    refuse("the pack is damaged: ", why..., make_pack_again);
  };
  struct stat status;
  if (!file_ || fstat(file_.number, &status))
    refuse("the pack cannot be read: ", std::strerror(errno), "; give the path of a pack");
  if (!S_ISREG(status.st_mode)) refuse("it is not a file; give the path of a pack");
  const auto size = static_cast<uint64_t>(status.st_size);
  PackHead head;
  if (size < sizeof head) refuse("it is not a pack; give one that `python -m tile_ops pack` made");
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_.number, 0);
  if (memory == MAP_FAILED) refuse("the pack cannot be mapped: ", std::strerror(errno));
  bytes_ = {static_cast<const char*>(memory), size};
  std::memcpy(&head, memory, sizeof head);
  if (std::memcmp(head.magic, PackHead().magic, sizeof head.magic) != 0)
    refuse("it is not a pack; give one that `python -m tile_ops pack` made");
  if (head.version != pack_version)
    refuse("the pack has format ", head.version, ", and this tile_ops reads ", pack_version, make_pack_again);
  if (head.file_bytes != size)
    refuse_as_damaged("it has ", size, " bytes, and its header says ", head.file_bytes);
  if (head.entries > (size - sizeof head) / sizeof(PackEntry))
    refuse_as_damaged("it is too short for ", head.entries, " entries");
  entries_ = {reinterpret_cast<const PackEntry*>(bytes_.data() + sizeof head), head.entries};
  if (hash128(bytes_of(entries_)) != head.checksum) refuse_as_damaged("the checksum of its index is another");
  const uint64_t begin = sizeof head + entries_.size_bytes();
  for (const PackEntry& entry : entries_)
    if (entry.offset < begin || entry.offset > size || entry.bytes > size - entry.offset)
      refuse_as_damaged("an entry lies outside of it");
  const auto before = [](const PackEntry& a, const PackEntry& b) { return a.key < b.key; };
  if (!std::is_sorted(entries_.begin(), entries_.end(), before)) refuse_as_damaged("its index is not sorted");
}

PackFile::~PackFile() { munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

const PackEntry* PackFile::find(const Sha256::Digest& key) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const PackEntry& entry, const auto& wanted) { return entry.key < wanted; });
  return at != entries_.end() && at->key == key ? &*at : nullptr;
}

std::optional<std::string_view> PackFile::body(const PackEntry& entry) const {
  // To touch pages beyond the end of a file that was cut off would kill the process.
  struct stat status;
  if (fstat(file_.number, &status) || static_cast<uint64_t>(status.st_size) < bytes_.size())
    return std::nullopt;
  const std::string_view body = bytes_.substr(entry.offset, entry.bytes);
  if (hash128(body) != entry.checksum) return std::nullopt;
  return body;
}

std::optional<std::string> PackFile::read(const PackEntry& entry, const std::string& zlib) const {
  const auto found = body(entry);
  if (!found) return std::nullopt;
  if (entry.bytes == entry.size) return std::string(*found);
  return decompressed(*found, entry.size, zlib);
}

void write_pack(const std::string& path, std::vector<PackItem> items) {
  std::stable_sort(items.begin(), items.end(), [](const PackItem& a, const PackItem& b) {
    return a.entry.key != b.entry.key ? a.entry.key < b.entry.key : a.entry.size > b.entry.size;
  });
  const auto same = [](const PackItem& a, const PackItem& b) { return a.entry.key == b.entry.key; };
  items.erase(std::unique(items.begin(), items.end(), same), items.end());
  PackHead head{.entries = static_cast<uint32_t>(items.size())};
  uint64_t end = sizeof head + items.size() * sizeof(PackEntry);
  std::map<std::string_view, uint64_t> offsets;
  std::vector<PackEntry> entries;
  std::string bodies;
  for (const PackItem& item : items) {
    const auto [at, inserted] = offsets.try_emplace(item.body, end);
    if (inserted) {
      bodies += item.body;
      end += item.body.size();
    }
    PackEntry& entry = entries.emplace_back(item.entry);
    entry.checksum = hash128(item.body);
    entry.offset = at->second;
    entry.bytes = static_cast<uint32_t>(item.body.size());
  }
  head.file_bytes = end;
  head.checksum = hash128(bytes_of(entries));
  std::random_device random;
  const std::string temporary = str(path, ".", std::hex, random(), random(), temporary_suffix);
  bool written = false;
  int code = 0;
  {
    const FileHandle file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    written = file && write_all(::write, file.number, {reinterpret_cast<const char*>(&head), sizeof head}) &&
              write_all(::write, file.number, bytes_of(entries)) && write_all(::write, file.number, bodies);
    code = errno;
  }
  if (written && rename(temporary.c_str(), path.c_str()) == 0) return;
  if (written) code = errno;
  unlink(temporary.c_str());
  fail(ErrorKind::value, path, ": the pack cannot be written: ", std::strerror(code),
       "; give a path in a folder that can be written");
}

}  // namespace tile
