// Looks kernels up in the packs of a process.
#include "runtime/packs.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "support/env.h"
#include "support/error.h"
#include "support/log.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

// A pack that was replaced is another one.
std::string identity(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status)) return path;
  return str(status.st_dev, ' ', status.st_ino, ' ', status.st_size, ' ', status.st_mtim.tv_sec, ' ',
             status.st_mtim.tv_nsec);
}

std::vector<std::string> packs_in(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code missing;
  for (const auto& file : fs::directory_iterator(folder, missing))
    if (file.path().extension() == ".pack") paths.push_back(file.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<std::string> default_packs() {
  const std::string given = environment("TILE_PACKS");
  if (given == "none") return {};
  std::vector<std::string> paths;
  for (size_t begin = 0; begin < given.size();) {
    const size_t end = std::min(given.find(':', begin), given.size());
    if (end > begin) paths.push_back(given.substr(begin, end - begin));
    begin = end + 1;
  }
  // The package has its library in tile_ops/lib.
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&default_packs), &library) && library.dli_fname) {
    std::error_code failed;
    const fs::path file = fs::canonical(library.dli_fname, failed);
    for (std::string& path : packs_in(file.parent_path().parent_path() / "packs"))
      paths.push_back(std::move(path));
  }
  return paths;
}

Packs& Packs::get() {
  static Packs& packs = *new Packs(default_packs);
  return packs;
}

void Packs::open(const std::string& path) {
  std::string file = identity(path);
  if (std::find(identities_.begin(), identities_.end(), file) != identities_.end()) return;
  packs_.push_back(std::make_shared<const PackFile>(path));
  identities_.push_back(std::move(file));
}

void Packs::open_others() {
  if (opened_others_) return;
  if (others_)
    for (const std::string& path : others_()) open(path);
  opened_others_ = true;
}

void Packs::add(const std::string& path) {
  std::lock_guard lock(mutex_);
  open(path);
}

std::vector<std::shared_ptr<const PackFile>> Packs::all() {
  std::lock_guard lock(mutex_);
  open_others();
  return packs_;
}

std::optional<Packs::Found> Packs::find(const Sha256::Digest& key, int arch, int driver) {
  const auto major = [](uint32_t version) { return version / 1000; };
  for (const auto& pack : all()) {
    const PackEntry* entry = pack->find(key);
    if (!entry || entry->arch != static_cast<uint32_t>(arch)) continue;
    if (driver && major(static_cast<uint32_t>(driver)) < major(entry->cuda)) continue;
    std::string why = str("the pack is damaged, so its kernels are compiled again", make_pack_again);
    try {
      if (auto data = pack->read(*entry, zlib_)) {
        ++pack->hits;
        return Found{*std::move(data), entry->cuda};
      }
    } catch (const Error& no_zlib) {
      why = no_zlib.what();
    }
    warn_once(pack->path(), why);
  }
  return std::nullopt;
}

}  // namespace tile
