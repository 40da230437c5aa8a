// Applies the loops of chunk.h to the rows of a Chunk.
#include "cpu/interpreter/isa/chunk.h"

namespace tile::cpu::TILE_ISA {

void splat_lane(char* to, const char* from, int bytes, int64_t count) {
  uint64_t pattern;
  if (bytes == 8) {
    __builtin_memcpy(&pattern, from, 8);
  } else if (bytes == 4) {
    uint32_t lane;
    __builtin_memcpy(&lane, from, 4);
    pattern = lane * 0x0000000100000001u;
  } else if (bytes == 2) {
    uint16_t lane;
    __builtin_memcpy(&lane, from, 2);
    pattern = lane * 0x0001000100010001u;
  } else {
    pattern = static_cast<uint8_t>(*from) * 0x0101010101010101u;
  }
  const Vec<uint64_t> v(pattern);
  for (int64_t i = 0; i < count * bytes; i += vector_bytes) v.store(reinterpret_cast<uint64_t*>(to + i));
}

namespace {

// Returns true if the rows form one long row: each operand's rows are contiguous, or one element throughout.
bool dense(const Chunk& c, const GroupLoop& loop, unsigned repeats) {
  if (c.out_row != c.cols * loop.out_bytes) return false;
  for (int k = 0; k < loop.operands; ++k)
    if (c.in_row[k] != (repeats >> k & 1 ? 0 : c.cols * loop.bytes[k])) return false;
  return true;
}

// Returns true if the single column can be processed as a row: varying operands are adjacent along the rows.
// Updates `repeats` for the new direction.
bool adjacent(const Chunk& c, const GroupLoop& loop, unsigned& repeats) {
  unsigned still = 0;
  for (int k = 0; k < loop.operands; ++k) {
    if (c.in_row[k] == 0)
      still |= 1u << k;
    else if (c.in_row[k] != loop.bytes[k])
      return false;
  }
  if (c.out_row != loop.out_bytes) return false;
  repeats = still;
  return true;
}

// Returns true if operands that repeat along columns repeat along rows as well.
bool still(const Chunk& c, const GroupLoop& loop, unsigned repeats) {
  for (int k = 0; k < loop.operands; ++k)
    if (repeats >> k & 1 && c.in_row[k] != 0 && c.rows > 1) return false;
  return true;
}

template <int bytes>
TILE_INLINE void copy_ends(char* to, const char* from, int64_t n) {
  char head[bytes], tail[bytes];
  __builtin_memcpy(head, from, bytes);
  __builtin_memcpy(tail, from + n - bytes, bytes);
  __builtin_memcpy(to, head, bytes);
  __builtin_memcpy(to + n - bytes, tail, bytes);
}
// Copies without memcpy, whose call costs more than a short row.
TILE_INLINE void copy_few(char* to, const char* from, int64_t n) {
  int64_t i = 0;
  for (; i + 32 < n; i += 16) copy_ends<16>(to + i, from + i, 16);
  to += i, from += i, n -= i;
  if (n >= 16) return copy_ends<16>(to, from, n);
  if (n >= 8) return copy_ends<8>(to, from, n);
  if (n >= 4) return copy_ends<4>(to, from, n);
  if (n >= 2) return copy_ends<2>(to, from, n);
  if (n == 1) *to = *from;
}
// Copies and fills with zeros up to `padded`, a multiple of the vector. It uses whole vector stores, which
// following vector loads can forward.
TILE_INLINE void copy_padded(char* to, int64_t padded, const char* from, int64_t n, int lane) {
  using V = Vec<int32_t>;
  for (int64_t i = 0; i < padded; i += vector_bytes) {
    const int32_t* p = reinterpret_cast<const int32_t*>(from + i);
    V v(0);
    if (lane >= 4 && i < n) v = n - i >= vector_bytes ? V::load(p) : V::load(p, (n - i) / 4);
    v.store(reinterpret_cast<int32_t*>(to + i));
  }
  if (lane < 4) copy_few(to, from, n);
}

// Processes fewer lanes than a group, through zero-filled copies.
void run_few(const GroupLoop& loop, Operands in, char* out, int64_t count) {
  alignas(64) char buffer[most_operands + 1][group_buffer];
  for (int k = 0; k < loop.operands; ++k) {
    if (in.step[k] == 0) continue;
    const int lane = loop.bytes[k];
    copy_padded(buffer[k], loop.width * lane, in.at[k], count * lane, lane);
    in.at[k] = buffer[k];
  }
  loop.run(in, buffer[most_operands], 1);
  copy_few(out, buffer[most_operands], count * loop.out_bytes);
}

// A row that does not end with a whole group: its last group is computed first, since `out` may alias an
// operand.
void run_overlapping(const GroupLoop& loop, const Operands& in, char* out, int64_t cols) {
  alignas(64) char last[group_buffer];
  Operands end = in;
  for (int k = 0; k < loop.operands; ++k)
    if (in.step[k] != 0) end.at[k] += (cols - loop.width) * loop.bytes[k];
  loop.run(end, last, 1);
  loop.run(in, out, cols / loop.width);
  out += (cols - loop.width) * loop.out_bytes;
  const int64_t bytes = static_cast<int64_t>(loop.width) * loop.out_bytes;
  for (int64_t i = 0; i < bytes; i += vector_bytes) __builtin_memcpy(out + i, last + i, vector_bytes);
}

}  // namespace

void run_chunk(const Chunk& chunk, const GroupLoop& loop, unsigned repeats) {
  alignas(64) char splats[most_operands][group_buffer];
  int64_t rows = chunk.rows, cols = chunk.cols;
  if (rows > 1 && cols == 1 && adjacent(chunk, loop, repeats)) {
    cols = rows;
    rows = 1;
  } else if (rows > 1 && dense(chunk, loop, repeats)) {
    cols *= rows;
    rows = 1;
  }
  if (cols == 0 || rows == 0) return;
  // The width is a power of two; a division would cost more than a short row.
  const int64_t groups = cols >> __builtin_ctz(static_cast<unsigned>(loop.width)),
                rest = cols & (loop.width - 1);
  Operands in{};
  if (rest == 0 && still(chunk, loop, repeats)) {  // a fast path, since short rows are common
    in.rows = rows;
    in.out_row = chunk.out_row;
    for (int k = 0; k < loop.operands; ++k) {
      in.at[k] = chunk.in[k];
      in.row[k] = chunk.in_row[k];
      if (repeats >> k & 1) {
        splat_lane(splats[k], chunk.in[k], loop.bytes[k], loop.width);
        in.at[k] = splats[k];
      } else {
        in.step[k] = loop.width * loop.bytes[k];
      }
    }
    return loop.run(in, chunk.out, groups);
  }
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
    if (rest == 0)
      loop.run(in, out, groups);
    else if (groups > 0)
      run_overlapping(loop, in, out, cols);
    else
      run_few(loop, in, out, cols);
  }
}

}  // namespace tile::cpu::TILE_ISA
