// A pack: one file of compiled kernels, found by the hash of their source. It is mapped into memory, and only
// entries that are asked for are read.
//
//   PackHead, PackEntry × entries (sorted by key), bodies
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/zlib.h"
#include "runtime/cache_files.h"
#include "support/hash.h"
#include "support/sha256.h"

namespace tile {

constexpr uint32_t pack_version = 2;
// How an error about a pack ends.
constexpr const char* make_pack_again = "; make it again with `python -m tile_ops pack`";

struct PackHead {
  char magic[8] = {'t', 'i', 'l', 'e', 'p', 'a', 'c', 'k'};
  uint32_t version = pack_version;
  uint32_t entries = 0;
  uint64_t file_bytes = 0;
  Hash128 checksum;  // covers the entries
};
struct PackEntry {
  Sha256::Digest key;
  Hash128 checksum;     // covers the body
  uint64_t offset = 0;  // position of the body in the file; equal bodies are stored once
  uint32_t bytes = 0;   // length of the body
  uint32_t size = 0;    // length of the data; a shorter body is a zlib stream of it
  uint32_t arch = 0;
  uint32_t cuda = 0;  // version of NVRTC: 13000 is 13.0
};
static_assert(sizeof(PackHead) == 40 && sizeof(PackEntry) == 72);

class PackFile {
 public:
  // Throws an error that names the file if it cannot be read, is no pack or is damaged. Bodies are checked
  // when they are read.
  explicit PackFile(std::string path);
  ~PackFile();
  PackFile(const PackFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return bytes_.size(); }
  std::span<const PackEntry> entries() const { return entries_; }
  const PackEntry* find(const Sha256::Digest& key) const;
  // Returns the stored body, or none if it is damaged. May be called from any thread.
  std::optional<std::string_view> body(const PackEntry& entry) const;
  // Returns the data, decompressed, or none if it is damaged. Throws if the library `zlib` is missing.
  std::optional<std::string> read(const PackEntry& entry, const std::string& zlib = zlib_library) const;

  mutable std::atomic<uint64_t> hits = 0;

 private:
  std::string path_;
  FileHandle file_;
  std::string_view bytes_;
  std::span<const PackEntry> entries_;
};

// A body and its entry, of which `key`, `size`, `arch` and `cuda` are set.
struct PackItem {
  PackEntry entry;
  std::string body;
};
// Replaces the file by a rename, so that processes that have mapped the old one are not disturbed. Of items
// with one key the one with the largest data stays.
void write_pack(const std::string& path, std::vector<PackItem> items);

}  // namespace tile
