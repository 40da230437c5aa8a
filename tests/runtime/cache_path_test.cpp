// Tests the environment variables that set the folder and the budget of the disk cache.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "error_text.h"
#include "runtime/disk_cache.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

TEST(DiskCacheOptions, OfTheEnvironment) {
  const auto set = [](const char* name, const char* value) {
    value ? setenv(name, value, 1) : unsetenv(name);
  };
  const auto folder = [&](const char* own, const char* xdg, const char* home) {
    set("TILE_CACHE_DIR", own);
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
    return DiskCache::options().folder;
  };
  const std::string before = getenv("HOME") ? getenv("HOME") : "";
  EXPECT_EQ(folder("/own", "/xdg", "/h"), "/own");
  EXPECT_EQ(folder("own", "/xdg", "/h"), fs::current_path().string() + "/own");
  EXPECT_EQ(folder("", "/xdg", "/h"), "/xdg/tile_ops");
  EXPECT_EQ(folder(nullptr, "xdg", "/h"), "/h/.cache/tile_ops");
  EXPECT_EQ(folder(nullptr, nullptr, "/h"), "/h/.cache/tile_ops");
  EXPECT_EQ(folder(nullptr, nullptr, nullptr), "");
  set("HOME", before.empty() ? nullptr : before.c_str());

  set("TILE_CACHE_MB", nullptr);
  EXPECT_EQ(DiskCache::options().budget, uint64_t{1} << 30);
  set("TILE_CACHE_MB", "5");
  EXPECT_EQ(DiskCache::options().budget, uint64_t{5} << 20);
  for (const std::string wrong : {"1G", "-1", "x", "99999999999999999999", "1099511627776"}) {
    set("TILE_CACHE_MB", wrong.c_str());
    EXPECT_EQ(error_of([] { DiskCache::options(); }),
              "TILE_CACHE_MB=" + wrong +
                  ": it is not a number of MiB; unset it or set it to one, 0 for no cache on disk");
  }
  set("TILE_CACHE_MB", nullptr);
}

}  // namespace
}  // namespace tile
