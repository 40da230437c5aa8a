// Tests error texts: the location in the user's source, then the facts.
#include "support/error.h"

#include <gtest/gtest.h>

#include "error_text.h"

namespace tile {
namespace {

TEST(Error, NamesThePlaceWithoutItsFolders) {
  const Location where{"some/folder/kernel.cpp", 27};
  EXPECT_EQ(error_of([&] { fail(where, ErrorKind::type, "mma: cannot multiply ", 1, " by ", 2.5); }),
            "kernel.cpp:27: mma: cannot multiply 1 by 2.5");
}

TEST(Error, UnknownPlaceIsLeftOut) {
  EXPECT_EQ(error_of([] { fail(ErrorKind::value, "matmul: no sizes"); }), "matmul: no sizes");
  EXPECT_EQ(error_of([] { fail(Location{}, ErrorKind::value, "matmul: no sizes"); }), "matmul: no sizes");
}

TEST(Error, KindTravels) {
  try {
    fail(ErrorKind::unsupported, "later");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

TEST(Error, BrokenInvariantSaysThatItIsOurs) {
  const std::string text = error_of([] { TILE_CHECK(1 + 1 == 3, "sum ", 2); });
  EXPECT_NE(text.find("internal error, please report it: 1 + 1 == 3 does not hold. sum 2"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace tile
