// Locations of NVRTC: TILE_NVRTC, torch's wheels, a toolkit.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "driver/nvrtc.h"
#include "support/env.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

std::function<std::vector<std::string>()>& wheel_folders() {
  static auto& folders = *new std::function<std::vector<std::string>()>;
  return folders;
}

// Returns the n of libnvrtc.so.<n>, or -1 for other files, such as libnvrtc.alt.so.<n> in the same folder.
int number_of(const std::string& file) {
  constexpr std::string_view name = "libnvrtc.so.";
  int number = -1;
  if (!file.starts_with(name)) return -1;
  const char* end = file.data() + file.size();
  return std::from_chars(file.data() + name.size(), end, number).ptr == end ? number : -1;
}

void add_newest(std::vector<std::string>& candidates, const fs::path& folder) {
  fs::path newest;
  int best = -1;
  std::error_code ended;
  for (fs::directory_iterator entry(folder, ended), end; !ended && entry != end; entry.increment(ended))
    if (const int number = number_of(entry->path().filename().string()); number > best) {
      best = number;
      newest = entry->path();
    }
  if (best >= 0) candidates.push_back(newest.string());
}

}  // namespace

std::vector<std::string> NvrtcPaths::candidates() const {
  std::vector<std::string> all;
  std::error_code ignored;
  if (!only.empty()) {
    if (fs::is_directory(only, ignored))
      add_newest(all, only);
    else
      all.push_back(only);
    return all;
  }
  for (const std::string& folder : folders) add_newest(all, folder);
  all.insert(all.end(), libraries.begin(), libraries.end());
  return all;
}

void set_nvrtc_folders(std::function<std::vector<std::string>()> folders) {
  wheel_folders() = std::move(folders);
}

NvrtcPaths nvrtc_paths() {
  NvrtcPaths paths;
  paths.only = environment("TILE_NVRTC");
  if (wheel_folders()) paths.folders = wheel_folders()();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string toolkit = environment(variable); !toolkit.empty())
      paths.folders.push_back(toolkit + "/lib64");
  // The toolkit's default location, which is often not on the loader's path.
  add_newest(paths.libraries, "/usr/local/cuda/lib64");
  return paths;
}

}  // namespace tile
