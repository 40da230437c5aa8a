// The packs of a process: those that the program loads, those of TILE_PACKS, and those that ship with
// tile_ops.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/pack_file.h"

namespace tile {

class Packs {
 public:
  // `others` returns the paths of packs that are opened at the first find() or all().
  explicit Packs(std::vector<std::string> (*others)() = nullptr, std::string zlib = zlib_library)
      : others_(others), zlib_(std::move(zlib)) {}
  // The packs of the process: default_packs().
  static Packs& get();

  // Opens a pack. One that is open already stays as it is, if the file is the same.
  void add(const std::string& path);

  struct Found {
    std::string data;
    uint32_t cuda = 0;
  };
  // Returns the data of a key, or none. An entry that is damaged, or compressed where zlib is missing, is
  // left out with one warning for the file. So are, without one, entries that a driver of CUDA version
  // `driver` cannot load, because a newer major version made them; 0: any driver. Throws if one of the
  // default packs is damaged.
  std::optional<Found> find(const Sha256::Digest& key, int arch, int driver = 0);

  std::vector<std::shared_ptr<const PackFile>> all();

 private:
  void open_others();
  void open(const std::string& path);
  std::vector<std::string> (*others_)();
  std::string zlib_;
  std::mutex mutex_;
  bool opened_others_ = false;
  std::vector<std::shared_ptr<const PackFile>> packs_;
  std::vector<std::string> identities_;  // one for each pack
};

// Returns the paths in TILE_PACKS, separated by colons, and the files *.pack in the folder `packs` next to
// the library's own. If TILE_PACKS is "none", there are none.
std::vector<std::string> default_packs();

}  // namespace tile
