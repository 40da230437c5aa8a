// Tests the decoder of DEFLATE on small inputs of each kind. tests/runtime/test_packs.py compares it with
// zlib.
#include "support/inflate.h"

#include <gtest/gtest.h>

namespace tile {
namespace {

template <size_t size>
std::string bytes(const char (&text)[size]) {
  return std::string(text, size - 1);
}

const std::string stored = bytes(
    "\x01\x03\x00\xfc\xff"
    "abc");
const std::string usual_codes = bytes("\x4b\x4c\x4a\x06\x00");    // abc
const std::string repeating = bytes("\x4b\x4c\xa4\x3d\x00\x00");  // 100 times a

TEST(Inflate, GivesTheData) {
  EXPECT_EQ(inflate(stored, 3), "abc");
  EXPECT_EQ(inflate(usual_codes, 3), "abc");
  EXPECT_EQ(inflate(repeating, 100), std::string(100, 'a'));
  EXPECT_EQ(inflate(bytes("\x03\x00"), 0), "");
}

TEST(Inflate, RefusesAnotherSize) {
  for (const std::string& each : {stored, usual_codes}) {
    EXPECT_FALSE(inflate(each, 2).has_value());
    EXPECT_FALSE(inflate(each, 4).has_value());
  }
  EXPECT_FALSE(inflate(repeating, 99).has_value());
}

TEST(Inflate, RefusesWhatIsMalformed) {
  EXPECT_FALSE(inflate("", 0).has_value());
  EXPECT_FALSE(inflate("\x07", 0).has_value());  // a kind of block that does not exist
  EXPECT_FALSE(inflate(bytes("\x01\x03\x00\xfc\xfe"
                             "abc"),
                       3)
                   .has_value());  // the sizes disagree
  EXPECT_FALSE(inflate(bytes("\x01\x03\x00\xfc\xff"
                             "ab"),
                       3)
                   .has_value());
  for (const std::string& each : {stored, usual_codes, repeating})
    for (size_t size = 0; size + 1 < each.size(); ++size)
      EXPECT_FALSE(inflate(each.substr(0, size), 3).has_value()) << size;
  EXPECT_FALSE(inflate(bytes("\x03\x02\x00"), 3).has_value());  // a copy from before the begin
}

TEST(Inflate, SurvivesFlippedBits) {
  for (const std::string& each : {stored, usual_codes, repeating})
    for (size_t bit = 0; bit < 8 * each.size(); ++bit) {
      std::string flipped = each;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      const auto data = inflate(flipped, 100);
      EXPECT_TRUE(!data || data->size() == 100);
    }
}

}  // namespace
}  // namespace tile
