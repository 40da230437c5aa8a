// Tests the disk cache with damaged files: whatever happens to them, a load returns the stored bytes or
// nothing.
#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/cache_files.h"
#include "runtime/key_of.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

// Returns bytes that depend on the name.
std::string bytes_of(const std::string& name, size_t size = 1000) {
  std::string bytes;
  while (bytes.size() < size) bytes += name + '\0';
  return bytes;
}

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest()
      : folder(fs::path(::testing::TempDir()) /
               ("disk_cache_" + std::to_string(getpid()) +
                ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder);
  }
  ~DiskCacheTest() override { fs::remove_all(folder); }

  DiskCache::Options options(uint64_t budget = 1 << 30) const {
    return {.folder = folder.string(), .budget = budget};
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (fs::is_directory(folder))
      for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file()) all.push_back(entry.path());
    return all;
  }
  fs::path only_file() const {
    EXPECT_EQ(files().size(), 1u);
    return files().empty() ? fs::path() : files()[0];
  }
  static void set_age(const fs::path& file, int seconds) {
    timespec times[2];
    times[0] = times[1] = {time(nullptr) - seconds, 0};
    EXPECT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }
  // Checks that nothing is stored and nothing fails in an unusable folder; returns the reason.
  static std::string unusable(const DiskCache& cache) {
    cache.store(key_of("a"), "text");
    EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
    cache.clear();
    return cache.info().unusable;
  }

  fs::path folder;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(DiskCacheTest, GivesWhatWasStored) {
  const DiskCache cache(options());
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  for (const size_t size : {0, 1, 63, 64, 1000, 1000000}) {
    const std::string name = "of size " + std::to_string(size), bytes = bytes_of(name, size).substr(0, size);
    cache.store(key_of(name), bytes);
    EXPECT_EQ(cache.load(key_of(name)), bytes);
    EXPECT_EQ(DiskCache(options()).load(key_of(name)), bytes);
  }
  cache.store(key_of("a"), "first");
  cache.store(key_of("a"), "second");
  EXPECT_EQ(cache.load(key_of("a")), "second");
  const DiskCache::Info info = cache.info();
  EXPECT_EQ(info.folder, folder.string());
  EXPECT_EQ(info.unusable, "");
  EXPECT_EQ(info.entries, 7u);
  EXPECT_EQ(info.bytes, 7 * 64 + 1001128u + 6);
  EXPECT_EQ(info.budget, uint64_t{1} << 30);
  EXPECT_EQ(cache.clear().entries, 7u);
  EXPECT_EQ(cache.info().entries, 0u);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
}

TEST_F(DiskCacheTest, OnlyTheUserMayReadIt) {
  DiskCache(options()).store(key_of("a"), "text");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(only_file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(DiskCacheTest, EveryTruncationIsAMiss) {
  const DiskCache cache(options());
  cache.store(key_of("a"), bytes_of("a", 100));
  const fs::path path = only_file();
  const std::string whole = read_file(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    EXPECT_EQ(cache.load(key_of("a")), std::nullopt) << size;
    EXPECT_FALSE(fs::exists(path)) << size;
  }
  write_file(path, whole + "x");
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  cache.store(key_of("a"), bytes_of("a", 100));
  EXPECT_EQ(cache.load(key_of("a")), bytes_of("a", 100));
}

TEST_F(DiskCacheTest, EveryFlippedBitIsAMiss) {
  const DiskCache cache(options());
  cache.store(key_of("a"), bytes_of("a", 100));
  const fs::path path = only_file();
  const std::string whole = read_file(path);
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    write_file(path, damaged);
    EXPECT_EQ(cache.load(key_of("a")), std::nullopt) << bit;
  }
  write_file(path, whole);
  EXPECT_EQ(cache.load(key_of("a")), bytes_of("a", 100));
}

TEST_F(DiskCacheTest, AnotherKeysFileIsAMiss) {
  const DiskCache cache(options());
  cache.store(key_of("a"), "text");
  const fs::path a = only_file();
  cache.store(key_of("b"), "other");
  for (const fs::path& file : files())
    if (file != a) fs::copy_file(a, file, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.load(key_of("b")), std::nullopt);
  EXPECT_EQ(cache.load(key_of("a")), "text");
}

TEST_F(DiskCacheTest, StrangeFilesInItsPlace) {
  const DiskCache cache(options());
  cache.store(key_of("a"), "text");
  const fs::path path = only_file(), aside = folder / "aside";
  fs::rename(path, aside);
  fs::create_symlink(aside, path);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  cache.store(key_of("a"), "text");
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  EXPECT_EQ(cache.clear().entries, 0u);
  EXPECT_TRUE(fs::exists(aside));
}

TEST_F(DiskCacheTest, AFullDiskStoresNothing) {
  static size_t room;
  DiskCache::Options full = options();
  full.write = [](int file, const void* bytes, size_t size) -> ssize_t {
    size = std::min(size, room);
    room -= size;
    if (size) return write(file, bytes, size);
    errno = ENOSPC;
    return -1;
  };
  const DiskCache cache(full);
  for (room = 0; room < 164; ++room) {
    const size_t before = room;
    cache.store(key_of("a"), bytes_of("a", 100));
    EXPECT_EQ(cache.load(key_of("a")), std::nullopt) << before;
    EXPECT_EQ(files(), std::vector<fs::path>()) << before;
    room = before;
  }
  room = 164;
  cache.store(key_of("a"), bytes_of("a", 100));
  EXPECT_EQ(cache.load(key_of("a")), bytes_of("a", 100));
}

TEST_F(DiskCacheTest, AFullDiskKeepsTheEntryThatWasThere) {
  DiskCache(options()).store(key_of("a"), "text");
  DiskCache::Options full = options();
  full.write = [](int, const void*, size_t) -> ssize_t { return 0; };
  DiskCache(full).store(key_of("a"), "new");
  EXPECT_EQ(DiskCache(options()).load(key_of("a")), "text");
}

TEST_F(DiskCacheTest, AKilledWriterLeavesNoEntryAndItsFileGoes) {
  const pid_t child = fork();
  if (child == 0) {
    DiskCache::Options killed = options();
    killed.write = [](int file, const void* bytes, size_t size) -> ssize_t {
      (void)!write(file, bytes, size / 2);
      raise(SIGKILL);
      return 0;
    };
    DiskCache(killed).store(key_of("a"), bytes_of("a"));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  const DiskCache cache(options());
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  EXPECT_EQ(cache.info().entries, 0u);
  const fs::path left = only_file();
  cache.store(key_of("a"), "text");
  EXPECT_TRUE(fs::exists(left));  // its writer may still be working on it
  set_age(left, 2 * 3600);
  cache.store(key_of("a"), "text");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(cache.load(key_of("a")), "text");
}

TEST_F(DiskCacheTest, FoldersThatCannotBeUsed) {
  write_file(folder, "a file");
  EXPECT_EQ(unusable(DiskCache(options())), "it is not a folder");
  EXPECT_EQ(unusable(DiskCache({.folder = (folder / "inside").string()})),
            "the folder cannot be made: Not a directory");
  EXPECT_EQ(read_file(folder), "a file");
  fs::remove(folder);
  EXPECT_EQ(unusable(DiskCache({.folder = "/proc/tile_ops"})),
            "the folder cannot be made: No such file or directory");
  EXPECT_EQ(unusable(DiskCache({.folder = ""})), "TILE_CACHE_DIR, XDG_CACHE_HOME and HOME are unset");
  EXPECT_EQ(unusable(DiskCache(options(0))), "TILE_CACHE_MB is 0");
  EXPECT_EQ(files(), std::vector<fs::path>());
}

TEST_F(DiskCacheTest, WhatBelongsToAnotherUserIsLeftAlone) {
  if (geteuid() != 0) {  // only root can give a file to another user: / belongs to one
    EXPECT_EQ(unusable(DiskCache({.folder = "/"})), "the folder belongs to another user");
    return;
  }
  const DiskCache cache(options());
  cache.store(key_of("a"), "planted");
  const fs::path path = only_file();
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  EXPECT_TRUE(fs::exists(path));
  ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
  EXPECT_EQ(unusable(cache), "the folder belongs to another user");
  EXPECT_EQ(only_file(), path);
}

TEST_F(DiskCacheTest, AReadOnlyFolderIsRead) {
  DiskCache(options()).store(key_of("a"), "text");
  // Root may write anywhere, so a child process tests this as another user.
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0) {
      for (const fs::path& path : {folder, only_file().parent_path(), only_file()})
        if (chown(path.c_str(), 12345, 12345)) _exit(1);
      fs::permissions(folder.parent_path(), fs::perms::others_exec, fs::perm_options::add);
      if (setgid(12345) || setuid(12345)) _exit(2);
    }
    fs::permissions(only_file().parent_path(), fs::perms::owner_read | fs::perms::owner_exec);
    fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
    const DiskCache cache(options());
    cache.store(key_of("b"), "new");
    const bool good = cache.load(key_of("a")) == "text" && !cache.load(key_of("b")) &&
                      cache.info().unusable == "the folder cannot be written: Permission denied" &&
                      cache.info().entries == 1 && files().size() == 1;
    fs::permissions(folder, fs::perms::owner_all);
    fs::permissions(only_file().parent_path(), fs::perms::owner_all);
    _exit(good ? 0 : 3);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(DiskCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  // All keys are in one of the sixteen folders, which has room for ten.
  const DiskCache cache(options(16 * 10 * 1064));
  std::vector<std::string> names;
  for (int i = 0; names.size() < 12; ++i)
    if (hex(key_of(std::to_string(i)))[0] == '7') names.push_back(std::to_string(i));
  const auto stored = [&](size_t i) { return cache.load(key_of(names[i])).has_value(); };
  for (size_t i = 0; i < 10; ++i) {
    const auto before = files();
    cache.store(key_of(names[i]), bytes_of(names[i], 1000).substr(0, 1000));
    for (const fs::path& file : files())
      if (std::find(before.begin(), before.end(), file) == before.end())
        set_age(file, 10000 - static_cast<int>(i) * 100);
  }
  EXPECT_EQ(cache.info().entries, 10u);
  EXPECT_TRUE(stored(0));  // a load makes it the most recently used
  cache.store(key_of(names[10]), bytes_of(names[10], 1000).substr(0, 1000));
  EXPECT_EQ(cache.info().entries, 8u);  // an eighth is free again
  for (size_t i = 0; i < 11; ++i) EXPECT_EQ(stored(i), i == 0 || i > 3) << i;
  EXPECT_LE(cache.info().bytes, 10 * 1064u);
  cache.store(key_of(names[11]), bytes_of("too large", 11 * 1064));
  EXPECT_FALSE(stored(11));
}

TEST_F(DiskCacheTest, FilesOfOthersSurviveEvictionAndClear) {
  const DiskCache cache(options(16 * 200));
  for (int i = 0; i < 100; ++i) cache.store(key_of(std::to_string(i)), "0123456789");
  for (const char digit : std::string("0123456789abcdef"))
    write_file(folder / std::string(1, digit) / "note.bin", std::string(1000, 'x'));
  for (int i = 0; i < 100; ++i) cache.store(key_of(std::to_string(i)), "0123456789");
  EXPECT_LE(cache.info().bytes, 16 * 200u);
  EXPECT_GT(cache.clear().entries, 0u);
  EXPECT_EQ(files().size(), 16u);
}

TEST_F(DiskCacheTest, EightProcessesAndAVandal) {
  const auto work = [&](unsigned seed) {
    std::minstd_rand random(seed);
    const DiskCache cache(options(16 * 20000));  // half of what is needed: entries are added and evicted
    size_t hits = 0;
    for (int i = 0; i < 600; ++i) {
      const std::string name = std::to_string(random() % 200);
      const std::string bytes = bytes_of(name, 1500 + random() % 3000);
      const auto found = cache.load(key_of(name));
      // The bytes may come from any writer, but must be complete: they repeat the name to the end.
      if (found && *found != bytes_of(name, found->size())) return 1;
      hits += found.has_value();
      if (!found || random() % 4 == 0) cache.store(key_of(name), bytes);
    }
    return hits > 0 ? 0 : 2;
  };
  const auto vandal = [&] {
    std::minstd_rand random(99);
    for (int round = 0; round < 30; ++round) {
      for (int shard = 0; shard < 16; ++shard)
        for (const CacheFile& file : cache_files(folder.string() + "/" + "0123456789abcdef"[shard])) {
          if (random() % 3) continue;
          const int opened = open(file.path.c_str(), O_WRONLY);
          if (opened < 0) continue;
          (void)!pwrite(opened, "\xff", 1, static_cast<off_t>(random() % (file.bytes + 1)));
          if (random() % 2) (void)!ftruncate(opened, static_cast<off_t>(random() % (file.bytes + 1)));
          close(opened);
        }
      if (round % 10 == 5) DiskCache(options()).clear();
      usleep(2000);
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 9; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(i < 8 ? work(i) : vandal());
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  DiskCache(options()).clear();
  EXPECT_EQ(files(), std::vector<fs::path>());
}

}  // namespace
}  // namespace tile
