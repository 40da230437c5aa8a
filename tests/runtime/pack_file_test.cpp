// Tests packs: what is written is found, and a damaged or foreign file is refused with its name.
#include "runtime/pack_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "error_text.h"
#include "runtime/key_of.h"
#include "runtime/packs.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

PackItem item(const std::string& name, const std::string& data, uint32_t arch = 90, uint32_t cuda = 13000) {
  PackEntry entry{
      .key = key_of(name), .size = static_cast<uint32_t>(data.size()), .arch = arch, .cuda = cuda};
  return {entry, data};
}

const std::string hundred_times_a("\x78\xda\x4b\x4c\xa4\x3d\x00\x00\x7a\x47\x25\xe5", 12);

class PackFileTest : public ::testing::Test {
 protected:
  PackFileTest() {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  ~PackFileTest() override { fs::remove_all(folder); }

  std::string contents() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  std::string error() const {
    const std::string text = error_of([&] { PackFile(this->path); });
    return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : "without the file: " + text;
  }
  static std::optional<std::string> read(const PackFile& pack, const std::string& name) {
    const PackEntry* entry = pack.find(key_of(name));
    return entry ? pack.read(*entry) : std::nullopt;
  }

  const fs::path folder = fs::path(::testing::TempDir()) / ("packs_" + std::to_string(getpid()));
  const std::string path = (folder / "a.pack").string();
};

TEST_F(PackFileTest, FindsWhatWasWritten) {
  std::vector<PackItem> items;
  for (int i = 0; i < 300; ++i)
    items.push_back(item(std::to_string(i), std::string(static_cast<size_t>(i), 'x')));
  write_pack(path, items);
  const PackFile pack(path);
  EXPECT_EQ(pack.entries().size(), 300u);
  EXPECT_EQ(pack.file_bytes(), fs::file_size(path));
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(read(pack, std::to_string(i)), std::string(static_cast<size_t>(i), 'x'));
  EXPECT_EQ(pack.find(key_of("another")), nullptr);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST_F(PackFileTest, HoldsNoneOrOne) {
  write_pack(path, {});
  EXPECT_TRUE(PackFile(path).entries().empty());
  EXPECT_EQ(PackFile(path).find(key_of("a")), nullptr);
  write_pack(path, {item("a", "")});
  EXPECT_EQ(read(PackFile(path), "a"), "");
}

TEST_F(PackFileTest, EqualBodiesAreStoredOnce) {
  const std::string data(10000, 'y');
  write_pack(path, {item("a", data), item("b", data)});
  EXPECT_LT(fs::file_size(path), 11000u);
  const PackFile pack(path);
  EXPECT_EQ(read(pack, "a"), data);
  EXPECT_EQ(read(pack, "b"), data);
}

TEST_F(PackFileTest, OfTwoEntriesTheLargerStays) {
  write_pack(path, {item("a", "log"), item("a", "log and code"), item("a", "more")});
  const PackFile pack(path);
  EXPECT_EQ(pack.entries().size(), 1u);
  EXPECT_EQ(read(pack, "a"), "log and code");
}

TEST_F(PackFileTest, ACompressedBodyIsDecompressed) {
  PackItem packed = item("a", "abc");
  packed.body = hundred_times_a;
  packed.entry.size = 100;
  write_pack(path, {packed});
  EXPECT_EQ(read(PackFile(path), "a"), std::string(100, 'a'));
}

TEST_F(PackFileTest, WithoutZlibCompressedEntriesArePassedOver) {
  PackItem packed = item("a", "abc");
  packed.body = hundred_times_a;
  packed.entry.size = 100;
  const std::string file = (folder / "compressed.pack").string();  // each file has one warning in a process
  write_pack(file, {packed, item("b", "plain")});
  Packs packs(nullptr, "libnone.so.1");
  packs.add(file);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(packs.find(key_of("a"), 90).has_value());
  EXPECT_FALSE(packs.find(key_of("a"), 90).has_value());
  EXPECT_EQ(packs.find(key_of("b"), 90)->data, "plain");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tile: warning: " + file +
                ": zlib, which decompresses packs, is not found (libnone.so.1: cannot open shared object "
                "file: No such file or directory); install the system's package of zlib, zlib1g or zlib\n");
}

TEST_F(PackFileTest, ADamagedBodyIsNotRead) {
  write_pack(path, {item("a", "first"), item("b", "second")});
  std::string bytes = contents();
  bytes[bytes.find("first")] ^= 1;
  overwrite(bytes);
  const PackFile pack(path);
  EXPECT_FALSE(read(pack, "a").has_value());
  EXPECT_EQ(read(pack, "b"), "second");
}

TEST_F(PackFileTest, AFileThatIsCutOffLaterIsNotTouched) {
  write_pack(path, {item("a", std::string(100000, 'x'))});
  const PackFile pack(path);
  fs::resize_file(path, 5000);
  EXPECT_FALSE(read(pack, "a").has_value());
}

TEST_F(PackFileTest, APackThatIsReplacedStaysReadable) {
  write_pack(path, {item("a", "old")});
  const PackFile pack(path);
  write_pack(path, {item("b", "new")});
  EXPECT_EQ(read(pack, "a"), "old");
  EXPECT_EQ(read(PackFile(path), "b"), "new");
}

TEST_F(PackFileTest, RefusesOtherFiles) {
  const std::string other = "it is not a pack; give one that `python -m tile_ops pack` made";
  EXPECT_EQ(error(), "the pack cannot be read: No such file or directory; give the path of a pack");
  for (const std::string& text : {std::string(), std::string("text"), std::string(100, 'x')}) {
    overwrite(text);
    EXPECT_EQ(error(), other);
  }
  EXPECT_EQ(error_of([&] { PackFile(folder.string()); }),
            folder.string() + ": it is not a file; give the path of a pack");
}

TEST_F(PackFileTest, RefusesADamagedHeader) {
  write_pack(path, {item("a", "first"), item("b", "second")});
  const std::string good = contents();
  const auto changed = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    overwrite(bytes);
    return error();
  };
  const std::string again = "; make it again with `python -m tile_ops pack`";
  const std::string damaged = "the pack is damaged: ";
  EXPECT_EQ(changed(8, 3), "the pack has format 3, and this tile_ops reads 2" + again);
  EXPECT_EQ(changed(12, 9), damaged + "it is too short for 9 entries" + again);
  EXPECT_EQ(changed(12, 1), damaged + "the checksum of its index is another" + again);
  EXPECT_EQ(changed(50, 'x'), damaged + "the checksum of its index is another" + again);
  overwrite(good.substr(0, good.size() - 1));
  EXPECT_EQ(error(),
            damaged + str("it has ", good.size() - 1, " bytes, and its header says ", good.size()) + again);
  for (size_t size = 0; size < good.size(); ++size) {
    overwrite(good.substr(0, size));
    EXPECT_NE(error(), "no error") << size;
  }
}

TEST_F(PackFileTest, RefusesEntriesOutsideOfTheFile) {
  write_pack(path, {item("a", "first")});
  std::string bytes = contents();
  PackHead head;
  PackEntry entry;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::memcpy(&entry, bytes.data() + sizeof head, sizeof entry);
  for (const auto& [offset, size] : {std::pair<uint64_t, uint32_t>(0, 5), {~uint64_t{0}, 5}, {112, 6}}) {
    entry.offset = offset;
    entry.bytes = size;
    head.checksum = hash128({reinterpret_cast<const char*>(&entry), sizeof entry});
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &entry, sizeof entry);
    overwrite(bytes);
    EXPECT_EQ(
        error(),
        "the pack is damaged: an entry lies outside of it; make it again with `python -m tile_ops pack`");
  }
}

TEST_F(PackFileTest, AFolderThatCannotBeWritten) {
  const std::string wrong = (folder / "no" / "a.pack").string();
  EXPECT_EQ(
      error_of([&] { write_pack(wrong, {}); }),
      wrong +
          ": the pack cannot be written: No such file or directory; give a path in a folder that can be "
          "written");
}

TEST_F(PackFileTest, PacksFindByKeyAndArch) {
  write_pack(path, {item("a", "code", 90)});
  Packs packs;
  EXPECT_FALSE(packs.find(key_of("a"), 90).has_value());
  packs.add(path);
  packs.add(path);
  ASSERT_EQ(packs.all().size(), 1u);
  EXPECT_EQ(packs.find(key_of("a"), 90)->data, "code");
  EXPECT_EQ(packs.find(key_of("a"), 90)->cuda, 13000u);
  EXPECT_FALSE(packs.find(key_of("a"), 80).has_value());
  EXPECT_FALSE(packs.find(key_of("b"), 90).has_value());
  EXPECT_EQ(packs.all()[0]->hits, 2u);
}

TEST_F(PackFileTest, ADriverOfAnOlderMajorVersionTakesNone) {
  write_pack(path, {item("a", "new", 90, 13000), item("b", "old", 90, 12080)});
  Packs packs;
  packs.add(path);
  EXPECT_FALSE(packs.find(key_of("a"), 90, 12090).has_value());
  EXPECT_TRUE(packs.find(key_of("a"), 90, 13000).has_value());
  EXPECT_TRUE(packs.find(key_of("b"), 90, 12030).has_value());
  EXPECT_TRUE(packs.find(key_of("b"), 90, 13010).has_value());
}

TEST_F(PackFileTest, ADamagedEntryWarnsOnceAndTheNextPackIsAsked) {
  write_pack(path, {item("a", "first"), item("b", "second")});
  std::string bytes = contents();
  bytes[bytes.find("first")] ^= 1;
  bytes[bytes.find("second")] ^= 1;
  overwrite(bytes);
  const std::string other = (folder / "b.pack").string();
  write_pack(other, {item("a", "first")});
  Packs packs;
  packs.add(path);
  packs.add(other);
  testing::internal::CaptureStderr();
  EXPECT_EQ(packs.find(key_of("a"), 90)->data, "first");
  EXPECT_FALSE(packs.find(key_of("b"), 90).has_value());
  EXPECT_FALSE(packs.find(key_of("b"), 90).has_value());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tile: warning: " + path +
                ": the pack is damaged, so its kernels are compiled again; make it again with "
                "`python -m tile_ops pack`\n");
}

TEST_F(PackFileTest, DefaultPacksAreOpenedAtTheFirstUse) {
  static std::vector<std::string> paths;
  static int asked;
  asked = 0;
  paths = {path};
  Packs packs([] {
    ++asked;
    return paths;
  });
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(error_of([&] { packs.find(key_of("a"), 90); }).substr(0, path.size()), path);
  write_pack(path, {item("a", "code")});
  EXPECT_TRUE(packs.find(key_of("a"), 90).has_value());
  EXPECT_TRUE(packs.find(key_of("a"), 90).has_value());
  EXPECT_EQ(asked, 2);
}

TEST_F(PackFileTest, ThreadsShareAPack) {
  std::vector<PackItem> items;
  for (int i = 0; i < 100; ++i) items.push_back(item(std::to_string(i), "data of " + std::to_string(i)));
  write_pack(path, items);
  static std::vector<std::string> paths;
  paths = {path};
  Packs packs([] { return paths; });
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto found = packs.find(key_of(std::to_string(i)), 90);
        right += found && found->data == "data of " + std::to_string(i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
  EXPECT_EQ(packs.all()[0]->hits, 400u);
}

TEST(DefaultPacks, OfTheEnvironment) {
  setenv("TILE_PACKS", "a.pack:/b/c.pack::", 1);
  EXPECT_EQ(default_packs(), (std::vector<std::string>{"a.pack", "/b/c.pack"}));
  setenv("TILE_PACKS", "none", 1);
  EXPECT_TRUE(default_packs().empty());
  unsetenv("TILE_PACKS");
  EXPECT_TRUE(default_packs().empty());
}

}  // namespace
}  // namespace tile
