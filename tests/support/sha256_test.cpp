// Tests SHA-256 against published digests, and at all lengths around a block's.
#include "support/sha256.h"

#include <gtest/gtest.h>

#include <set>

namespace tile {
namespace {

std::string sha(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hex(hash.digest());
}

TEST(Sha256, PublishedDigests) {
  EXPECT_EQ(sha(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesMakeTheWhole) {
  for (size_t size = 0; size < 200; ++size) {
    const std::string text(size, 'x');
    Sha256 pieces;
    for (size_t at = 0; at < size; at += 7) pieces.add(std::string_view(text).substr(at, 7));
    EXPECT_EQ(hex(pieces.digest()), sha(text)) << size;
  }
}

TEST(Sha256, FieldsAreApart) {
  std::set<std::string> all;
  for (auto [a, b] : {std::pair("ab", "c"), {"a", "bc"}, {"", "abc"}, {"abc", ""}}) {
    Sha256 hash;
    hash.add_field(a);
    hash.add_field(b);
    all.insert(hex(hash.digest()));
  }
  EXPECT_EQ(all.size(), 4u);
}

}  // namespace
}  // namespace tile
