// Computes offsets in shared memory and the bank conflicts that they cause.
#include "cuda/shared_layout.h"

#include <algorithm>
#include <array>
#include <set>

namespace tile::cuda {
namespace {

constexpr int64_t chunks_a_line = SharedLayout::line_bytes / SharedLayout::chunk_bytes;
constexpr int banks = 32, bank_bytes = 4;

}  // namespace

int64_t SharedLayout::exchange_of(int64_t row) const {
  const int64_t rotations = swizzle / chunk_bytes;
  if (!rotations) return 0;
  const int64_t at = row / (chunks_a_line / rotations);
  if (exchange == Exchange::rows) return at % rotations;
  const auto bit = [](int64_t x, int i) { return x >> i & 1; };
  if (element_bytes == 1) {
    const int64_t high = bit(row, 1) ^ bit(row, 3), middle = bit(row, 2);
    return rotations == 8   ? high << 2 | middle << 1 | bit(row, 0)
           : rotations == 4 ? high << 1 | middle
                            : middle;
  }
  int64_t reversed = 0;  // the bits in reverse order
  for (int i = 0; 1 << i < rotations; ++i) reversed = reversed << 1 | bit(at, i);
  return reversed;
}

int64_t SharedLayout::offset_of(int64_t row, int64_t at, int stage) const {
  const int64_t byte = at % panel * element_bytes;
  return stage * stage_bytes() + at / panel * panel_bytes() + row * pitch +
         ((byte / chunk_bytes) ^ exchange_of(row)) * chunk_bytes + byte % chunk_bytes;
}

int64_t SharedLayout::offset(int64_t row, int64_t column, int stage) const {
  return major == Major::columns ? offset_of(row, column, stage) : offset_of(column, row, stage);
}

std::optional<int> SharedLayout::tma_swizzle() const {
  // TMA writes boxes densely and swizzles chunks by address bits 7 to 9. These are the row's bits if a row
  // has as many bytes as the swizzle.
  if (pitch != panel * element_bytes || (swizzle && pitch != swizzle)) return std::nullopt;
  if (swizzle && exchange != Exchange::rows) return std::nullopt;
  if (swizzle && rows % 8 != 0 && panels() * stages > 1) return std::nullopt;  // would begin mid-pattern
  return swizzle;
}

std::optional<SharedLayout::Descriptor> SharedLayout::wgmma_descriptor(bool k_major) const {
  const int64_t span = swizzle ? swizzle : chunk_bytes, group = 8 * span;  // 8 rows
  if (pitch != span || panel * element_bytes != span || rows % 8 != 0) return std::nullopt;
  if (swizzle && exchange != Exchange::rows) return std::nullopt;
  // wgmma reads only 16-bit operands along the other axis than k.
  if (!k_major && element_bytes != 2) return std::nullopt;
  const int mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  if (k_major) return Descriptor{swizzle ? chunk_bytes : panel_bytes(), group, mode};
  // Without a swizzle `stride` always belongs to the other axis than k, whichever axis is contiguous.
  return swizzle ? Descriptor{panel_bytes(), group, mode} : Descriptor{group, panel_bytes(), mode};
}

SharedLayout whole_rows(int64_t rows, int64_t width, int element_bytes, Major major, int stages) {
  const int64_t chunks = width * element_bytes / SharedLayout::chunk_bytes;
  // Rows begin on chunks_a_line / rotations different chunks of a line, and that many consecutive rows need
  // no swizzle. (The odd factor of the number of chunks only changes the order of these chunks.)
  const int64_t rotations = std::min(chunks & -chunks, chunks_a_line);
  return {.rows = rows,
          .width = width,
          .element_bytes = element_bytes,
          .major = major,
          .swizzle = rotations > 1 ? static_cast<int>(rotations) * SharedLayout::chunk_bytes : 0,
          .panel = width,
          .pitch = width * element_bytes,
          .stages = stages,
          .exchange = element_bytes == 2 ? Exchange::rows : Exchange::fragments};
}

SharedLayout in_panels(int64_t rows, int64_t width, int element_bytes, int swizzle, Major major, int stages) {
  const int64_t span = swizzle ? swizzle : SharedLayout::chunk_bytes;
  return {.rows = rows,
          .width = width,
          .element_bytes = element_bytes,
          .major = major,
          .swizzle = swizzle,
          .panel = span / element_bytes,
          .pitch = span,
          .stages = stages};
}

namespace {

// Returns the distinct words that each group of lanes requests; a group is served at once.
std::vector<std::set<int64_t>> words_of(const std::vector<int64_t>& offsets, int bytes) {
  const size_t lanes = bytes > bank_bytes ? static_cast<size_t>(banks * bank_bytes / bytes) : size_t{banks};
  std::vector<std::set<int64_t>> groups((offsets.size() + lanes - 1) / lanes);
  for (size_t i = 0; i < offsets.size(); ++i)
    for (int64_t at = offsets[i]; offsets[i] >= 0 && at < offsets[i] + bytes; at += bank_bytes)
      groups[i / lanes].insert(at / bank_bytes);
  return groups;
}

}  // namespace

int shared_passes(const std::vector<int64_t>& offsets, int bytes) {
  int passes = 0;
  for (const auto& words : words_of(offsets, bytes)) {
    std::array<int, banks> wanted{};
    for (int64_t word : words) ++wanted[static_cast<size_t>(word % banks)];
    passes += *std::max_element(wanted.begin(), wanted.end());
  }
  return passes;
}

int least_passes(const std::vector<int64_t>& offsets, int bytes) {
  int passes = 0;
  for (const auto& words : words_of(offsets, bytes))
    passes += static_cast<int>((words.size() + banks - 1) / banks);
  return passes;
}

}  // namespace tile::cuda
