// Reductions over axes: in a thread's registers, then over lanes, then over warps through shared memory.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// NaN is the start of floating extremes: it is skipped unless nothing else is there.
template <class A, bool integer = IsInteger<A>::value>
struct Extreme {
  TILE static A low() { return Limits<A>::low; }
  TILE static A high() { return Limits<A>::high; }
};
template <class A>
struct Extreme<A, false> {
  TILE static A low() { return A(float_from_bits(0x7fc00000u)); }
  TILE static A high() { return low(); }
};

// What is kept of elements of T, its start, and the combination of two lanes x and y.
#define TILE_REDUCTION(NAME, KEPT, START, COMBINATION)        \
  struct NAME {                                               \
    template <class T>                                        \
    using Kept = KEPT;                                        \
    template <class A>                                        \
    TILE static A start() {                                   \
      return START;                                           \
    }                                                         \
    template <class A>                                        \
    TILE static A combine(A first, A second) {                \
      const auto x = LaneOf<A>::in(first), y = LaneOf<A>::in(second); \
      return LaneOf<A>::out(COMBINATION);                     \
    }                                                         \
  };
TILE_REDUCTION(Sum, typename SumOf<T>::type, A(0), x + y)
TILE_REDUCTION(Product, typename SumOf<T>::type, A(1), x * y)
TILE_REDUCTION(Max, typename SumOf<T>::type, Extreme<A>::low(), math::max(x, y))
TILE_REDUCTION(Min, typename SumOf<T>::type, Extreme<A>::high(), math::min(x, y))
TILE_REDUCTION(Any, bool, false, x || y)
TILE_REDUCTION(All, bool, true, x && y)
#undef TILE_REDUCTION

template <class A>
TILE A shuffle_xor_value(A x, int mask, int line) {
  if constexpr (sizeof(A) == 8) {
    const u64 bits = bitcast<u64>(x);
    const u64 high = shuffle_xor((u32)(bits >> 32), mask, line), low = shuffle_xor((u32)bits, mask, line);
    return bitcast<A>(high << 32 | low);
  } else {
    return bitcast<A>((Unsigned<A>)shuffle_xor((u32)bitcast<Unsigned<A>>(x), mask, line));
  }
}

// Plan: into(r), the register of the result that register r goes to; lanes and warps, the bits of their
// numbers that are summed over; all_warps, their number. Sums of warps meet in `shared`: where that is
// `turned`, the next reduction takes another place, so that its barrier is also the one behind this.
template <class Op, class L, class Plan, bool turned, class T, class From>
TILE Tile<T, L> reduce(const Tile<T, From>& from, char* shared, int line) {
  using A = typename Op::template Kept<T>;
  A sums[L::registers];
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) sums[r] = Op::template start<A>();
  TILE_UNROLL
  for (int r = 0; r < From::registers; ++r)
    if (valid<From>(r)) sums[Plan::into(r)] = Op::combine(sums[Plan::into(r)], convert<A>(from.x[r]));
  TILE_UNROLL
  for (int bit = 1; bit < 32; bit *= 2) {
    if (!(Plan::lanes & bit)) continue;
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r)
      sums[r] = Op::combine(sums[r], shuffle_xor_value(sums[r], bit, line));
  }
  if constexpr (Plan::lanes == 31 && Plan::warps != 0 && Plan::warps == Plan::all_warps - 1) {
    // One sum a warp: each lane takes that of another warp, and they are shuffled together.
    A* memory = (A*)shared;
    if (lane() == 0) {
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r)
        store_shared(memory + r * Plan::all_warps + warp(), sums[r], line);
    }
    synchronize(line);
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r)
      sums[r] = load_shared<A>(memory + r * Plan::all_warps + lane() % Plan::all_warps, line);
    TILE_UNROLL
    for (int bit = 1; bit < Plan::all_warps; bit *= 2) {
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r)
        sums[r] = Op::combine(sums[r], shuffle_xor_value(sums[r], bit, line));
    }
    if (!turned) synchronize(line);
  } else if constexpr (Plan::warps != 0) {
    A* memory = (A*)shared;
    if ((lane() & Plan::lanes) == 0) {
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r)
        store_shared(memory + (r * Plan::all_warps + warp()) * 32 + lane(), sums[r], line);
    }
    synchronize(line);
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) sums[r] = Op::template start<A>();
    const int mine = warp() & ~Plan::warps, column = lane() & ~Plan::lanes;
    TILE_UNROLL
    for (int other = 0; other < Plan::all_warps; ++other) {
      if (other & ~Plan::warps) continue;
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r)
        sums[r] = Op::combine(
            sums[r], load_shared<A>(memory + (r * Plan::all_warps + (mine | other)) * 32 + column, line));
    }
    if (!turned) synchronize(line);
  }
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = convert<T>(sums[r]);
  return to;
}

}  // namespace tile
