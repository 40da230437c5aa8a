// A cache of byte strings on disk, keyed by the hash of the data that they were made from. Whatever happens
// on the disk, a load returns the stored bytes or nothing, and no call fails.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/sha256.h"

namespace tile {

class DiskCache {
 public:
  using Key = Sha256::Digest;
  struct Options {
    std::string folder;  // empty if there is no cache
    uint64_t budget = uint64_t{1} << 30;
    ssize_t (*write)(int, const void*, size_t) = ::write;  // tests replace it by one that fails
  };
  // Reads TILE_CACHE_DIR, otherwise tile_ops in XDG_CACHE_HOME, otherwise in ~/.cache; and TILE_CACHE_MB.
  static Options options();

  explicit DiskCache(Options options) : options_(std::move(options)) {}
  static const DiskCache& get();  // uses options() at the first call

  std::optional<std::string> load(const Key& key) const;
  // Replaces an entry of that key, then removes the least recently used ones if the budget is exceeded.
  void store(const Key& key, std::string_view bytes) const;

  std::vector<Key> keys() const;  // lists all entries

  struct Info {
    std::string folder, unusable;  // `unusable` is the reason why nothing is stored, or empty
    uint64_t entries = 0, bytes = 0, budget = 0;
  };
  Info info() const;
  Info clear() const;  // returns what was removed

 private:
  std::string shard_of(const Key& key) const;
  std::string path_of(const Key& key) const;
  std::vector<std::string> shards() const;
  std::string why_unusable() const;
  bool write_file(const std::string& path, std::string_view header, std::string_view bytes) const;

  Options options_;
};

}  // namespace tile
