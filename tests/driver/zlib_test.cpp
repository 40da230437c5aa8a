// Tests how zlib is called: sizes, damaged streams, a missing library. tests/runtime/test_packs.py
// has larger streams.
#include "driver/zlib.h"

#include <gtest/gtest.h>

#include "driver/library.h"
#include "error_text.h"

namespace tile {
namespace {

template <size_t size>
std::string bytes(const char (&text)[size]) {
  return std::string(text, size - 1);
}

const std::string stored = bytes(
    "\x78\x01\x01\x03\x00\xfc\xff"
    "abc\x02\x4d\x01\x27");
const std::string coded = bytes("\x78\xda\x4b\x4c\x4a\x06\x00\x02\x4d\x01\x27");          // abc
const std::string repeating = bytes("\x78\xda\x4b\x4c\xa4\x3d\x00\x00\x7a\x47\x25\xe5");  // 100 times a
const std::string empty = bytes("\x78\xda\x03\x00\x00\x00\x00\x01");

TEST(Zlib, GivesTheData) {
  EXPECT_EQ(decompressed(stored, 3), "abc");
  EXPECT_EQ(decompressed(coded, 3), "abc");
  EXPECT_EQ(decompressed(repeating, 100), std::string(100, 'a'));
  EXPECT_EQ(decompressed(empty, 0), "");
}

TEST(Zlib, RefusesAnotherSize) {
  for (const std::string& each : {stored, coded}) {
    EXPECT_FALSE(decompressed(each, 0).has_value());
    EXPECT_FALSE(decompressed(each, 2).has_value());
    EXPECT_FALSE(decompressed(each, 4).has_value());
  }
  EXPECT_FALSE(decompressed(repeating, 99).has_value());
  EXPECT_FALSE(decompressed(repeating, 101).has_value());
  EXPECT_FALSE(decompressed(empty, 1).has_value());
}

TEST(Zlib, RefusesWhatIsMalformed) {
  EXPECT_FALSE(decompressed("", 0).has_value());
  EXPECT_FALSE(decompressed(bytes("\x78\xda\x07"), 0).has_value());  // a kind of block that does not exist
  EXPECT_FALSE(decompressed(bytes("\x78\x01\x01\x03\x00\xfc\xfe"
                                  "abc\x02\x4d\x01\x27"),
                            3)
                   .has_value());                                            // the sizes disagree
  EXPECT_FALSE(decompressed(bytes("\x78\xda\x03\x02\x00"), 3).has_value());  // a copy from before the begin
  for (const std::string& each : {stored, coded, repeating, empty})
    for (size_t size = 0; size < each.size(); ++size)
      for (const size_t wanted : {0, 3, 100})
        EXPECT_FALSE(decompressed(each.substr(0, size), wanted).has_value()) << size;
}

TEST(Zlib, SurvivesFlippedBits) {
  const std::pair<std::string, std::string> streams[] = {
      {stored, "abc"}, {coded, "abc"}, {repeating, std::string(100, 'a')}};
  for (const auto& [stream, data] : streams)
    for (size_t bit = 0; bit < 8 * stream.size(); ++bit) {
      std::string flipped = stream;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      const auto found = decompressed(flipped, data.size());
      EXPECT_TRUE(!found || *found == data) << bit;
    }
}

TEST(Zlib, AMissingLibraryIsNamed) {
  const std::string fix = "; install the system's package of zlib, zlib1g or zlib";
  EXPECT_EQ(error_of([] { decompressed(coded, 3, "libnone.so.1"); }),
            "zlib, which decompresses packs, is not found (libnone.so.1: cannot open shared object file: No "
            "such file or directory)" +
                fix);
  const std::string libc = Library::open("libc.so.6").path();
  EXPECT_EQ(error_of([] { decompressed(coded, 3, "libc.so.6"); }),
            libc + " has no function uncompress" + fix);
}

}  // namespace
}  // namespace tile
