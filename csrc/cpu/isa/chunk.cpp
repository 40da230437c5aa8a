// The rows of a Chunk for the loops of chunk.h.
#include "cpu/isa/chunk.h"

namespace tile::cpu::TILE_ISA {

void splat_lane(char* to, const char* from, int bytes, int64_t count) {
  uint64_t pattern = 0;
  __builtin_memcpy(&pattern, from, static_cast<unsigned long>(bytes));
  for (int filled = bytes; filled < 8; filled *= 2) pattern |= pattern << (8 * filled);
  const Vec<uint64_t> v(pattern);
  for (int64_t i = 0; i < count * bytes; i += vector_bytes) v.store(reinterpret_cast<uint64_t*>(to + i));
}

namespace {

bool dense(const Chunk& c, const GroupLoop& loop) {
  if (c.out_row != c.cols * loop.out_bytes) return false;
  for (int k = 0; k < loop.operands; ++k)
    if (c.in_row[k] != c.cols * loop.bytes[k]) return false;
  return true;
}

// The last lanes of a row, fewer than a group, through zeroed copies.
void run_tail(const GroupLoop& loop, Operands in, char* out, int64_t count) {
  alignas(64) char buffer[4][group_buffer];
  for (int k = 0; k < loop.operands; ++k) {
    if (in.step[k] == 0) continue;
    __builtin_memset(buffer[k], 0, static_cast<unsigned long>(loop.width * loop.bytes[k]));
    __builtin_memcpy(buffer[k], in.at[k], static_cast<unsigned long>(count * loop.bytes[k]));
    in.at[k] = buffer[k];
  }
  loop.run(in, buffer[3], 1);
  __builtin_memcpy(out, buffer[3], static_cast<unsigned long>(count * loop.out_bytes));
}

}  // namespace

void run_chunk(const Chunk& chunk, const GroupLoop& loop, unsigned repeats) {
  alignas(64) char splats[3][group_buffer];
  int64_t rows = chunk.rows, cols = chunk.cols;
  if (rows > 1 && repeats == 0 && dense(chunk, loop)) {
    cols *= rows;
    rows = 1;
  }
  if (cols == 0) return;
  const int64_t groups = cols / loop.width, rest = cols % loop.width;
  Operands in{};
  for (int64_t r = 0; r < rows; ++r) {
    for (int k = 0; k < loop.operands; ++k) {
      const char* row = chunk.in[k] + r * chunk.in_row[k];
      if (repeats >> k & 1) {
        if (r == 0 || chunk.in_row[k] != 0) splat_lane(splats[k], row, loop.bytes[k], loop.width);
        in.at[k] = splats[k];
      } else {
        in.at[k] = row;
        in.step[k] = loop.width * loop.bytes[k];
      }
    }
    char* out = chunk.out + r * chunk.out_row;
    if (groups > 0) loop.run(in, out, groups);
    if (rest == 0) continue;
    for (int k = 0; k < loop.operands; ++k) in.at[k] += groups * in.step[k];
    run_tail(loop, in, out + groups * loop.width * loop.out_bytes, rest);
  }
}

}  // namespace tile::cpu::TILE_ISA
