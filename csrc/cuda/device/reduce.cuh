// Reductions over axes: first in a thread's registers, then over lanes, then over warps through shared
// memory, then over the blocks of a cluster through theirs.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/shuffle.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// NaN is the initial value of floating extremes: it is skipped unless all elements are NaN.
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

// Defines a reduction: the accumulator's type for elements of T, its initial value, and the combination of
// two lanes x and y.
#define TILE_REDUCTION(NAME, KEPT, START, COMBINATION)        \
  struct NAME {                                               \
    template <class T>                                        \
    using Kept = KEPT;                                        \
    template <class T>                                        \
    using Result = T;                                         \
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

// Converts an element to its accumulated form, and that to the result.
template <class A>
struct KeptAs {
  template <class Plan, class From, class T>
  TILE static A of(T x, int) {
    return convert<A>(x);
  }
  template <class T>
  TILE static T result(A x) {
    return convert<T>(x);
  }
};

// Compresses the bits of x that are set in `mask`; the second function expands them.
template <int mask>
TILE constexpr int gathered_bits(int x) {
  int to = 0, at = 0;
  for (int bit = 0; bit < 6; ++bit)
    if (mask >> bit & 1) to |= (x >> bit & 1) << at++;
  return to;
}
template <int mask>
TILE constexpr int scattered_bits(int x) {
  int to = 0, at = 0;
  for (int bit = 0; bit < 6; ++bit)
    if (mask >> bit & 1) to |= (x >> at++ & 1) << bit;
  return to;
}
TILE constexpr int count_of(int mask) {
  int count = 1;
  for (int bit = 0; bit < 6; ++bit)
    if (mask >> bit & 1) count *= 2;
  return count;
}

// Each block of a cluster sends its sums to all blocks that need them; each adds them in the same order, so
// that results are identical. The buffers alternate: before a thread writes to a buffer again, it has
// synchronized with all its readers.
template <class Op, class Plan, class A, int registers>
TILE void reduce_in_cluster(A (&sums)[registers], char* across, int line) {
  constexpr int blocks = count_of(Plan::blocks), other_lanes = 31 & ~Plan::same_lanes,
                other_warps = (Plan::all_warps - 1) & ~Plan::same_warps, columns = count_of(other_lanes),
                senders = count_of(Plan::same_lanes);
  A* memory = (A*)across;
  const int slot = gathered_bits<other_warps>(warp()) * columns + gathered_bits<other_lanes>(lane());
  constexpr int slots = count_of(other_warps) * columns;
  const int own = block_of_cluster(), from = gathered_bits<Plan::blocks>(own);
  if ((warp() & Plan::same_warps) == 0) {
    TILE_UNROLL
    for (int first = 0; first < blocks; first += senders) {
      const int to = first + gathered_bits<Plan::same_lanes>(lane());
      if (to < blocks) {
        TILE_UNROLL
        for (int r = 0; r < registers; ++r)
          store_shared_of((own & ~Plan::blocks) | scattered_bits<Plan::blocks>(to),
                          memory + (r * slots + slot) * blocks + from, sums[r], line);
      }
    }
  }
  arrive_in_cluster(line);
  wait_in_cluster(line);
  TILE_UNROLL
  for (int r = 0; r < registers; ++r) {
    const A* all = memory + (r * slots + slot) * blocks;
    A sum = load_shared<A>(all, line);
    TILE_UNROLL
    for (int block = 1; block < blocks; ++block) sum = Op::combine(sum, load_shared<A>(all + block, line));
    sums[r] = sum;
  }
}

// Plan has: into(r), the register of the result for register r; lanes, warps and blocks, the bits of their
// numbers that are reduced over; all_warps, the number of warps; same_lanes and same_warps, the bits in which
// threads hold equal sums after the reduction within their block.
template <class Op, class T, class L>
TILE auto start_of() {
  using A = typename Op::template Kept<T>;
  return full<L>(Op::template start<A>());
}
template <class Op, class Plan, class From, class A, class L, class T>
TILE void add_to(Tile<A, L>& sums, int r, T x) {
  if (valid<From>(r))
    sums.x[Plan::into(r)] =
        Op::combine(sums.x[Plan::into(r)], KeptAs<A>::template of<Plan, From>(x, r));
}

// Warps exchange sums through `shared`. If that is `double_buffered`, the next reduction uses the other
// buffer, so that its barrier also ends this one. Blocks exchange sums through `across`.
template <class Op, class T, class L, class Plan, bool double_buffered, class A>
TILE Tile<T, L> reduce_partial(const Tile<A, L>& of_thread, int line, char* shared, char* across = nullptr) {
  A sums[L::registers];
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) sums[r] = of_thread.x[r];
  TILE_UNROLL
  for (int bit = 1; bit < 32; bit *= 2) {
    if (!(Plan::lanes & bit)) continue;
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r)
      sums[r] = Op::combine(sums[r], shuffle_xor_value(sums[r], bit, line));
  }
  if constexpr (Plan::lanes == 31 && Plan::warps != 0 && Plan::warps == Plan::all_warps - 1) {
    // One sum per warp: each lane reads another warp's sum, and a shuffle reduction combines them.
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
    if (!double_buffered) synchronize(line);
  } else if constexpr (Plan::warps != 0) {
    constexpr int other_lanes = 31 & ~Plan::lanes, columns = count_of(other_lanes),
                  copies = count_of(Plan::lanes), warps = count_of(Plan::warps);
    A* memory = (A*)shared;
    const int column = gathered_bits<other_lanes>(lane()), copy = gathered_bits<Plan::lanes>(lane());
    if (copy == 0) {
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r)
        store_shared(memory + (r * Plan::all_warps + warp()) * columns + column, sums[r], line);
    }
    synchronize(line);
    const int mine = warp() & ~Plan::warps;
    const auto of_warp = [&](int r, int other) {
      const int from = mine | scattered_bits<Plan::warps>(other);
      return load_shared<A>(memory + (r * Plan::all_warps + from) * columns + column, line);
    };
    if constexpr (copies >= warps) {
      // Lanes with the same sums each read those of another warp.
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r) sums[r] = of_warp(r, copy % warps);
      TILE_UNROLL
      for (int bit = 1; bit < warps; bit *= 2) {
        TILE_UNROLL
        for (int r = 0; r < L::registers; ++r)
          sums[r] = Op::combine(sums[r],
                                shuffle_xor_value(sums[r], scattered_bits<Plan::lanes>(bit), line));
      }
    } else {
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r) {
        sums[r] = of_warp(r, 0);
        TILE_UNROLL
        for (int other = 1; other < warps; ++other) sums[r] = Op::combine(sums[r], of_warp(r, other));
      }
    }
    if (!double_buffered) synchronize(line);
  }
  if constexpr (Plan::blocks != 0) reduce_in_cluster<Op, Plan>(sums, across, line);
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = KeptAs<A>::template result<T>(sums[r]);
  return to;
}
template <class Op, class L, class Plan, class T, class From>
TILE auto partial(const Tile<T, From>& from) {
  auto sums = start_of<Op, T, L>();
  TILE_UNROLL
  for (int r = 0; r < From::registers; ++r) add_to<Op, Plan, From>(sums, r, from.x[r]);
  return sums;
}
template <class Op, class L, class Plan, bool double_buffered, class T, class From>
TILE auto reduce(const Tile<T, From>& from, int line, char* shared, char* across = nullptr) {
  return reduce_partial<Op, typename Op::template Result<T>, L, Plan, double_buffered>(
      partial<Op, L, Plan>(from), line, shared, across);
}

// Several tiles of one layout as one, whose reductions share their barriers.
template <class L, int n>
struct Several {
  static constexpr int registers = n * L::registers;
};
template <int i, class A, class L, class All>
TILE void put_several(All& all, const Tile<A, L>& tile) {
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) all.x[i * L::registers + r] = tile.x[r];
}
template <int i, class A, class L, class All, class... More>
TILE void put_several(All& all, const Tile<A, L>& tile, const More&... more) {
  put_several<i>(all, tile);
  put_several<i + 1>(all, more...);
}
template <class A, class L, class... More>
TILE auto several(const Tile<A, L>& first, const More&... more) {
  Tile<A, Several<L, 1 + sizeof...(More)>> all;
  put_several<0>(all, first, more...);
  return all;
}
template <int i, class L, class T, int n>
TILE Tile<T, L> one_of(const Tile<T, Several<L, n>>& all) {
  Tile<T, L> tile;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) tile.x[r] = all.x[i * L::registers + r];
  return tile;
}

}  // namespace tile
