// Tests shared layouts: elements have distinct addresses, accesses have no bank conflicts, and the swizzle
// and the descriptors match the hardware.
#include "cuda/shared_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tile::cuda {
namespace {

constexpr int chunk = SharedLayout::chunk_bytes;

void expect_complete(const SharedLayout& layout, int64_t rows, int64_t columns) {
  std::set<int64_t> offsets;
  for (int stage = 0; stage < layout.stages; ++stage)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t offset = layout.offset(row, column, stage);
        EXPECT_TRUE(offsets.insert(offset).second);
        EXPECT_LE(offset + layout.element_bytes, layout.bytes());
        EXPECT_EQ(offset % layout.element_bytes, 0);
      }
}

TEST(SharedLayout, EveryElementHasItsPlace) {
  for (int bytes : {1, 2, 4})
    for (int64_t width : {16, 48, 64, 80, 96, 112, 128, 176, 192})
      for (const Major major : {Major::rows, Major::columns}) {
        const int64_t rows = major == Major::columns ? 24 : width,
                      columns = major == Major::columns ? width : 24;
        expect_complete(whole_rows(24, width, bytes, major, 2), rows, columns);
        for (int swizzle : {0, 32, 64, 128})
          expect_complete(in_panels(24, width, bytes, swizzle, major), rows, columns);
      }
}

// ldmatrix reads a chunk of each of 8 rows at once.
void expect_rows_free_of_conflicts(const SharedLayout& layout) {
  const int64_t each = chunk / layout.element_bytes, chunks = layout.width / each;
  for (int64_t row = 0; row + 8 <= layout.rows; row += 8)
    for (int64_t c = 0; c < chunks; ++c) {
      std::vector<int64_t> offsets;
      for (int64_t i = 0; i < 8; ++i) offsets.push_back(layout.offset_of(row + i, c * each));
      ASSERT_EQ(shared_passes(offsets, chunk), 1) << layout.width << " wide, row " << row << ", chunk " << c;
    }
}
// cp.async writes chunks of a row, row by row: one per lane. The last threads write none if a row does not
// divide them.
void expect_copies_free_of_conflicts(const SharedLayout& layout, int64_t threads) {
  const int64_t each = chunk / layout.element_bytes, chunks = layout.width / each,
                across = std::min(chunks, threads), down = threads / across;
  for (int64_t x = 0; x < chunks; x += across)
    for (int64_t y = 0; y < layout.rows; y += down)
      for (int64_t first = 0; first < threads; first += 32) {
        std::vector<int64_t> offsets;
        for (int64_t i = first; i < first + 32; ++i) {
          const int64_t row = i / across, c = x + i % across;
          const bool copies = row < down && y + row < layout.rows && c < chunks;
          offsets.push_back(copies ? layout.offset_of(y + row, c * each) : -1);
        }
        ASSERT_EQ(shared_passes(offsets, chunk), least_passes(offsets, chunk)) << layout.width << " wide";
      }
}

TEST(SharedLayout, LdmatrixAndCopiesMeetNoBankTwice) {
  for (int bytes : {1, 2, 4})
    for (int64_t width = chunk / bytes; width * bytes <= 512; width += chunk / bytes)
      expect_rows_free_of_conflicts(whole_rows(64, width, bytes));
  for (int swizzle : {32, 64, 128}) expect_rows_free_of_conflicts(in_panels(64, 64, 2, swizzle));
  for (int64_t width = 8; width <= 256; width += 8)
    for (int64_t threads : {32, 128, 256}) expect_copies_free_of_conflicts(whole_rows(64, width, 2), threads);
}

TEST(SharedLayout, WithoutASwizzleRowsMeet) {
  SharedLayout plain = whole_rows(8, 64, 2);
  plain.swizzle = 0;
  std::vector<int64_t> offsets;
  for (int64_t row = 0; row < 8; ++row) offsets.push_back(plain.offset_of(row, 0));
  EXPECT_EQ(shared_passes(offsets, chunk), 8);
  EXPECT_EQ(least_passes(offsets, chunk), 1);
}

TEST(SharedLayout, PassesOfWordsAndVectors) {
  const auto every = [](int64_t stride) {
    std::vector<int64_t> offsets;
    for (int64_t lane = 0; lane < 32; ++lane) offsets.push_back(lane * stride);
    return offsets;
  };
  EXPECT_EQ(shared_passes(every(4), 4), 1);
  EXPECT_EQ(shared_passes(every(0), 4), 1);  // one word for all
  EXPECT_EQ(shared_passes(every(2), 2), 1);
  EXPECT_EQ(shared_passes(every(8), 4), 2);
  EXPECT_EQ(shared_passes(every(128), 4), 32);
  EXPECT_EQ(shared_passes(every(8), 8), 2);
  EXPECT_EQ(shared_passes(every(16), 16), 4);
  EXPECT_EQ(shared_passes(every(132), 4), 1);
  EXPECT_EQ(shared_passes({-1, -1}, 4), 0);
}

// The copy unit flips address bits from 4 on by those from 7 on (CUDA C++ programming guide, TMA swizzle).
TEST(SharedLayout, PanelsAreWhatTmaWrites) {
  for (int swizzle : {32, 64, 128}) {
    const SharedLayout layout = in_panels(16, 256 / 2, 2, swizzle);
    EXPECT_EQ(layout.tma_swizzle(), swizzle);
    for (int64_t row = 0; row < 16; ++row)
      for (int64_t at = 0; at < layout.width; ++at) {
        const int64_t panel = at / layout.panel,
                      plain = panel * layout.panel_bytes() + row * swizzle + at % layout.panel * 2;
        EXPECT_EQ(layout.offset_of(row, at), plain ^ (plain >> 7 & (swizzle / chunk - 1)) << 4);
      }
  }
  EXPECT_EQ(in_panels(16, 64, 2, 0).tma_swizzle(), 0);
  // Rows with as many bytes as a swizzle are its panels.
  for (int64_t width : {16, 32, 64}) EXPECT_EQ(whole_rows(64, width, 2).tma_swizzle(), width * 2);
  EXPECT_EQ(whole_rows(64, 64, 2), in_panels(64, 64, 2, 128));
  EXPECT_EQ(whole_rows(64, 128, 2).tma_swizzle(), std::nullopt);
  EXPECT_EQ(whole_rows(64, 80, 2).tma_swizzle(), std::nullopt);
  EXPECT_EQ(whole_rows(64, 32, 4).tma_swizzle(), std::nullopt);  // chunks are permuted differently
  EXPECT_EQ(whole_rows(64, 4, 4).tma_swizzle(), 0);
  // The second panel would begin mid-pattern.
  EXPECT_EQ(in_panels(12, 128, 2, 128).tma_swizzle(), std::nullopt);
}

TEST(SharedLayout, DescriptorsOfWgmma) {
  using Descriptor = SharedLayout::Descriptor;
  EXPECT_EQ(in_panels(128, 64, 2, 128).wgmma_descriptor(true), (Descriptor{16, 1024, 1}));
  EXPECT_EQ(in_panels(128, 64, 2, 64).wgmma_descriptor(true), (Descriptor{16, 512, 2}));
  EXPECT_EQ(in_panels(128, 64, 2, 32).wgmma_descriptor(true), (Descriptor{16, 256, 3}));
  EXPECT_EQ(in_panels(128, 64, 2, 0).wgmma_descriptor(true), (Descriptor{128 * 16, 128, 0}));
  // The rows are those of the sum.
  EXPECT_EQ(in_panels(64, 256, 2, 128).wgmma_descriptor(false), (Descriptor{64 * 128, 1024, 1}));
  EXPECT_EQ(in_panels(64, 256, 2, 0).wgmma_descriptor(false), (Descriptor{128, 64 * 16, 0}));
  EXPECT_EQ(in_panels(64, 256, 4, 128).wgmma_descriptor(false), std::nullopt);
  EXPECT_EQ(whole_rows(64, 128, 2).wgmma_descriptor(true), std::nullopt);
  EXPECT_EQ(whole_rows(64, 64, 2).wgmma_descriptor(true), (Descriptor{16, 1024, 1}));
  EXPECT_EQ(whole_rows(64, 32, 4).wgmma_descriptor(true), std::nullopt);
  EXPECT_EQ(in_panels(12, 64, 2, 128).wgmma_descriptor(true), std::nullopt);
}

}  // namespace
}  // namespace tile::cuda
