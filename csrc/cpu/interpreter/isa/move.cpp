// Moves between memory of any dtype and strides, and lanes.
#include "cpu/interpreter/isa/chunk.h"
#include "cpu/interpreter/isa/dtype_rows.h"
#include "cpu/interpreter/isa/parts.h"
#include "cpu/vecmath/transpose.h"

namespace tile::cpu::TILE_ISA {
namespace {

// The two sides of a move. Loads and stores differ in which side is written; Byte is char or const char.
struct Geometry {
  int64_t row, column, lane_row, rows, cols;
};

template <class M>
struct Load {
  using F = Format<M>;
  using L = typename F::Lane;
  using Memory = const char;
  using Lanes = char;
  static TILE_INLINE void one(Memory* memory, Lanes* lanes) {
    M x;
    __builtin_memcpy(&x, memory, sizeof x);
    const L lane = F::get(x);
    __builtin_memcpy(lanes, &lane, sizeof lane);
  }
  static TILE_INLINE void adjacent(Memory* memory, Lanes* lanes, int64_t n) {
    F::load(reinterpret_cast<const M*>(memory), reinterpret_cast<L*>(lanes), n);
  }
  static TILE_INLINE void block(Memory* memory, int64_t column, Lanes* lanes, int64_t lane_row) {
    constexpr int n = Vec<L>::lanes;
    Vec<L> m[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) m[i] = F::load(reinterpret_cast<const M*>(memory + i * column));
    transpose(m);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) m[i].store(reinterpret_cast<L*>(lanes + i * lane_row));
  }
};
template <class M>
struct Store {
  using F = Format<M>;
  using L = typename F::Lane;
  using Memory = char;
  using Lanes = const char;
  static TILE_INLINE void one(Memory* memory, Lanes* lanes) {
    L lane;
    __builtin_memcpy(&lane, lanes, sizeof lane);
    const M x = F::put(lane);
    __builtin_memcpy(memory, &x, sizeof x);
  }
  static TILE_INLINE void adjacent(Memory* memory, Lanes* lanes, int64_t n) {
    F::store(reinterpret_cast<const L*>(lanes), reinterpret_cast<M*>(memory), n);
  }
  static TILE_INLINE void block(Memory* memory, int64_t column, Lanes* lanes, int64_t lane_row) {
    constexpr int n = Vec<L>::lanes;
    Vec<L> m[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) m[i] = Vec<L>::load(reinterpret_cast<const L*>(lanes + i * lane_row));
    transpose(m);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) F::store(reinterpret_cast<M*>(memory + i * column), m[i]);
  }
};

template <class Way, class M>
TILE_INLINE void one_by_one(typename Way::Memory* memory, typename Way::Lanes* lanes, const Geometry& g) {
  for (int64_t r = 0; r < g.rows; ++r)
    for (int64_t c = 0; c < g.cols; ++c)
      Way::one(memory + r * g.row + c * g.column,
               lanes + r * g.lane_row + c * static_cast<int64_t>(sizeof(typename Way::L)));
}

// Memory is adjacent along rows: transposes square blocks in registers, and moves the rest one by one.
template <class Way, class M>
void by_blocks(typename Way::Memory* memory, typename Way::Lanes* lanes, const Geometry& g) {
  constexpr int64_t size = sizeof(typename Way::L);
  constexpr int64_t n = Vec<typename Way::L>::lanes;
  const int64_t rows = g.rows - g.rows % n, cols = g.cols - g.cols % n;
  for (int64_t c = 0; c < cols; c += n)
    for (int64_t r = 0; r < rows; r += n)
      Way::block(memory + r * g.row + c * g.column, g.column, lanes + r * g.lane_row + c * size, g.lane_row);
  Geometry right = g, below = g;
  right.rows = rows;
  right.cols = g.cols - cols;
  below.rows = g.rows - rows;
  one_by_one<Way, M>(memory + cols * g.column, lanes + cols * size, right);
  one_by_one<Way, M>(memory + rows * g.row, lanes + rows * g.lane_row, below);
}

template <class Way, class M>
void move(typename Way::Memory* memory, typename Way::Lanes* lanes, Geometry g) {
  constexpr int64_t size = sizeof(M), lane = sizeof(typename Way::L);
  if (g.rows <= 0 || g.cols <= 0) return;
  if (g.cols == 1 && g.lane_row == lane) g = {0, g.row, 0, 1, g.rows};
  if (g.column == size || g.cols == 1) {
    if (g.row == g.cols * size && g.lane_row == g.cols * lane) g = {0, size, 0, 1, g.rows * g.cols};
    if (g.cols >= 4) {
      for (int64_t r = 0; r < g.rows; ++r) Way::adjacent(memory + r * g.row, lanes + r * g.lane_row, g.cols);
      return;
    }
  } else if (Way::F::vectors && g.row == size && g.rows >= Vec<typename Way::L>::lanes) {
    if constexpr (Way::F::vectors) return by_blocks<Way, M>(memory, lanes, g);
  }
  one_by_one<Way, M>(memory, lanes, g);
}

template <class M>
void load(const char* memory, int64_t row, int64_t column, char* lanes, int64_t lane_row, int64_t rows,
          int64_t cols) {
  move<Load<M>, M>(memory, lanes, {row, column, lane_row, rows, cols});
}
template <class M>
void store(char* memory, int64_t row, int64_t column, const char* lanes, int64_t lane_row, int64_t rows,
           int64_t cols) {
  move<Store<M>, M>(memory, lanes, {row, column, lane_row, rows, cols});
}
TILE_INLINE void stream_line(char* to, const char* line) {
#if TILE_VECTOR_BYTES == 64
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(line));
#else
  constexpr int half = vector_bytes == 32 ? 32 : 16;
#pragma GCC unroll 4
  for (int i = 0; i < 64; i += half) {
#if TILE_VECTOR_BYTES == 32
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + i)));
#else
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + i)));
#endif
  }
#endif
}
// Whole cache lines bypass the caches; a buffer line holds converted elements.
template <class M>
void stream(char* memory, const char* lanes, int64_t n) {
  using L = typename Format<M>::Lane;
  constexpr int64_t line = 64, count = line / static_cast<int64_t>(sizeof(M));
  const L* from = reinterpret_cast<const L*>(lanes);
  int64_t head = (line - static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % line)) % line /
                 static_cast<int64_t>(sizeof(M));
  head = head < n ? head : n;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(head) * sizeof(M)) % line == 0;
  if (!aligned) head = n;
  Format<M>::store(from, reinterpret_cast<M*>(memory), head);
  int64_t i = head;
  for (; i + count <= n; i += count) {
    char* to = memory + i * static_cast<int64_t>(sizeof(M));
    if constexpr (Format<M>::same) {
      stream_line(to, lanes + i * static_cast<int64_t>(sizeof(L)));
    } else {
      alignas(64) M converted[count];
      Format<M>::store(from + i, converted, count);
      stream_line(to, reinterpret_cast<const char*>(converted));
    }
  }
  Format<M>::store(from + i, reinterpret_cast<M*>(memory) + i, n - i);
}
template <class M>
void fill(char* lanes, double value, int64_t count) {
  using L = typename Format<M>::Lane;
  const L lane = Format<M>::get(cast<M>(value));
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<L*>(lanes)[i] = lane;
}
template <>
void fill<tf32>(char* lanes, double value, int64_t count) {
  const float lane = Format<tf32>::put(static_cast<float>(value)).value;
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(lanes)[i] = lane;
}

template <class M>
struct Round {
  TILE_INLINE Vec<float> operator()(Vec<float> x) const { return Format<M>::round(x); }
};
template <class M>
constexpr GroupLoop round_group = vector_group<Round<M>, float, 1, 2>;
template <class M>
void round_chunk(const Chunk& chunk) {
  run_chunk(chunk, round_group<M>, 0);
}

template <class M>
constexpr MoveRow row(DType dtype) {
  if constexpr (Format<M>::same)
    return {dtype, load<M>, store<M>, stream<M>, fill<M>, nullptr};
  else
    return {dtype, load<M>, store<M>, stream<M>, fill<M>, round_chunk<M>};
}
constexpr auto table = dtype_rows<MoveRow>([]<class M>(DType dtype) { return row<M>(dtype); });

}  // namespace

extern const Span<MoveRow> move_rows = table.all();

}  // namespace tile::cpu::TILE_ISA
