// Tests the selection of the instruction set: names, limits and the exact texts of errors.
#include "cpu/vecmath/isa.h"

#include <gtest/gtest.h>

#include <string>

#include "error_text.h"

namespace tile::cpu {
namespace {

std::string choice_error(std::string_view tile_isa) {
  return error_of([&] { choose_isa(tile_isa, ""); });
}
std::string choices() {
  std::string text = "baseline";
  if (supported(Isa::avx2)) text += ", avx2";
  if (supported(Isa::avx512)) text += ", avx512";
  return text;
}

TEST(Isa, TheVariableNamesOne) {
  EXPECT_EQ(choose_isa("baseline", ""), Isa::baseline);
  if (supported(Isa::avx2)) {
    EXPECT_EQ(choose_isa("avx2", ""), Isa::avx2);
    EXPECT_EQ(choose_isa("avx2", "default"), Isa::avx2) << "TILE_ISA comes before ATEN_CPU_CAPABILITY";
  }
}

TEST(Isa, TorchsVariableLimits) {
  EXPECT_EQ(choose_isa("", "default"), Isa::baseline);
  EXPECT_EQ(choose_isa("", "avx2"), supported(Isa::avx2) ? Isa::avx2 : Isa::baseline);
  const Isa best = supported(Isa::avx512) ? Isa::avx512 : supported(Isa::avx2) ? Isa::avx2 : Isa::baseline;
  EXPECT_EQ(choose_isa("", "avx512"), best);
  EXPECT_EQ(choose_isa("", ""), best);
  EXPECT_EQ(choose_isa("", "something else"), best);
}

TEST(Isa, AnUnknownNameIsAnError) {
  EXPECT_EQ(
      choice_error("sse9"),
      "TILE_ISA=sse9: there is no such instruction set; unset TILE_ISA or set it to one of " + choices());
  EXPECT_EQ(
      choice_error("AVX2"),
      "TILE_ISA=AVX2: there is no such instruction set; unset TILE_ISA or set it to one of " + choices());
}

TEST(Isa, AnUnsupportedNameIsAnError) {
  const std::string lacking =
      supported(Isa::avx512)
          ? "no error"
          : "TILE_ISA=avx512: this machine's CPU does not have it; unset TILE_ISA or set it to one of " +
                choices();
  EXPECT_EQ(choice_error("avx512"), lacking);
}

TEST(Isa, NamesAndOrder) {
  EXPECT_EQ(name(Isa::baseline), "baseline");
  EXPECT_EQ(name(Isa::avx512), "avx512");
  EXPECT_TRUE(supported(active_isa()));
}

}  // namespace
}  // namespace tile::cpu
