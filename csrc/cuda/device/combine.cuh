// Reductions and scans with a function of the kernel, which is associative but need not be commutative, so
// that only adjacent elements are combined.
//
// A thread combines runs of its registers. Steps then combine the totals of runs, of lanes, of warps and of
// outer registers, in the order of the layout's modes. A scan finally adds the preceding total to each run.
#pragma once
#include "cuda/device/reduce.cuh"

namespace tile {

// The elements that are combined at once, one per tile.
template <class... T>
struct Values;
template <class T>
struct Values<T> {
  T x;
};
template <class T, class... More>
struct Values<T, More...> {
  T x;
  Values<More...> more;
};

template <class T, class L>
TILE Values<T> values_at(int r, const Tile<T, L>& tile) {
  return {tile.x[r]};
}
template <class T, class L, class... More>
TILE Values<T, More...> values_at(int r, const Tile<T, L>& tile, const Tile<More, L>&... more) {
  return {tile.x[r], values_at(r, more...)};
}
template <class T, class L>
TILE void put_values(int r, const Values<T>& from, Tile<T, L>& tile) {
  tile.x[r] = from.x;
}
template <class T, class L, class... More>
TILE void put_values(int r, const Values<T, More...>& from, Tile<T, L>& tile, Tile<More, L>&... more) {
  tile.x[r] = from.x;
  put_values(r, from.more, more...);
}

template <class T>
TILE Values<T> chosen(bool first, const Values<T>& x, const Values<T>& y) {
  return {first ? x.x : y.x};
}
template <class T, class... More>
TILE Values<T, More...> chosen(bool first, const Values<T, More...>& x, const Values<T, More...>& y) {
  return {first ? x.x : y.x, chosen(first, x.more, y.more)};
}

template <class T>
TILE Values<T> shuffle_values(const Values<T>& of, int from, int line) {
  return {shuffle_value(of.x, from, line)};
}
template <class T, class... More>
TILE Values<T, More...> shuffle_values(const Values<T, More...>& of, int from, int line) {
  return {shuffle_value(of.x, from, line), shuffle_values(of.more, from, line)};
}

template <class T>
TILE Values<T> load_values(const Values<T>* from, int line) {
  return {load_shared<T>(&from->x, line)};
}
template <class T, class... More>
TILE Values<T, More...> load_values(const Values<T, More...>* from, int line) {
  return {load_shared<T>(&from->x, line), load_values(&from->more, line)};
}
template <class T>
TILE void store_values(Values<T>* to, const Values<T>& from, int line) {
  store_shared(&to->x, from.x, line);
}
template <class T, class... More>
TILE void store_values(Values<T, More...>* to, const Values<T, More...>& from, int line) {
  store_shared(&to->x, from.x, line);
  store_values(&to->more, from.more, line);
}

// Values, or nothing for padding: the function has no known neutral element.
template <class V>
struct Maybe {
  V values;
  bool there;
};
template <class Combine, class V>
TILE Maybe<V> joined(Combine combine, const Maybe<V>& first, const Maybe<V>& second) {
  V both = first.values;
  combine(both, second.values);
  return {chosen(first.there, chosen(second.there, both, first.values), second.values),
          first.there || second.there};
}

// The parameters of a combining op. Plan is a struct of the generated source:
//   axis, lines          the lines along the axis of which a thread has elements
//   runs, length         each line has so many runs of so many adjacent elements
//   at(i)                the register of element i, in order of lines, then runs
//   replicas, all_warps  of the layout and of the block
// Padding follows the last element, so a forward scan ignores it.
template <class Plan, class L, bool is_scan, bool is_reverse, bool is_double_buffered>
struct Way {
  using Of = Plan;
  static constexpr bool scan = is_scan, reverse = is_reverse, double_buffered = is_double_buffered;
  static constexpr bool masked = L::padded && (!scan || reverse);
  static constexpr int count = Plan::lines * Plan::runs;
  TILE static constexpr int position(int i, int n) { return reverse ? n - 1 - i : i; }
  TILE static constexpr int element(int run, int i) {
    return Plan::at(run * Plan::length + position(i, Plan::length));
  }
  TILE static bool there(int r) {
    return !masked || L::thread(Plan::axis) + L::element(Plan::axis, r) < L::extent(Plan::axis);
  }
};

// The total of each run, and the total that precedes it. After runs are combined, the first has the total of
// all.
template <class Way, class V>
struct Running {
  Maybe<V> total[Way::count], before[Way::count];
};
template <class Way, class Combine, class V>
TILE void add_before(Combine combine, Running<Way, V>& of, int run, const Maybe<V>& more) {
  of.before[run] = joined(combine, more, of.before[run]);
}
template <class Way, class V>
TILE Maybe<V> shuffle_maybe(const Maybe<V>& of, int from, int line) {
  Maybe<V> to = {shuffle_values(of.values, from, line), true};
  if constexpr (Way::masked) to.there = shuffle((u32)of.there, from, line) != 0;
  return to;
}
template <class T>
TILE void send_values(int block, Values<T>* to, const Values<T>& from, int line) {
  store_shared_of(block, &to->x, from.x, line);
}
template <class T, class... More>
TILE void send_values(int block, Values<T, More...>* to, const Values<T, More...>& from, int line) {
  store_shared_of(block, &to->x, from.x, line);
  send_values(block, &to->more, from.more, line);
}
template <class Way, class V>
TILE void send_maybe(int block, char* memory, int slot, const Maybe<V>& from, int line) {
  if constexpr (Way::masked) {
    Maybe<V>* to = (Maybe<V>*)memory + slot;
    send_values(block, &to->values, from.values, line);
    store_shared_of(block, &to->there, from.there, line);
  } else {
    send_values(block, (V*)memory + slot, from.values, line);
  }
}
template <class Way, class V>
TILE void store_maybe(char* memory, int slot, const Maybe<V>& from, int line) {
  if constexpr (Way::masked) {
    Maybe<V>* to = (Maybe<V>*)memory + slot;
    store_values(&to->values, from.values, line);
    store_shared(&to->there, from.there, line);
  } else {
    store_values((V*)memory + slot, from.values, line);
  }
}
template <class Way, class V>
TILE Maybe<V> load_maybe(const char* memory, int slot, int line) {
  if constexpr (Way::masked) {
    const Maybe<V>* from = (const Maybe<V>*)memory + slot;
    return {load_values(&from->values, line), load_shared<bool>(&from->there, line)};
  } else {
    return {load_values((const V*)memory + slot, line), true};
  }
}

// Shared memory in which totals of a block's warps and of a cluster's blocks are exchanged.
struct Meeting {
  char *block = nullptr, *cluster = nullptr;
};

// Combines `extent` totals in slots; this thread's slot is number `position`.
template <class Way, int runs, int extent, class Combine, class V, class Slot>
TILE void join_slots(Combine combine, Running<Way, V>& of, int run, int position, const char* memory,
                     Slot slot, int line) {
  Maybe<V> sum = load_maybe<Way, V>(memory, slot(Way::position(0, extent)), line), before = sum;
  TILE_UNROLL
  for (int i = 1; i < extent; ++i) {
    if (i > 1)
      before = {chosen(position >= i, sum.values, before.values), position >= i ? sum.there : before.there};
    sum = joined(combine, sum, load_maybe<Way, V>(memory, slot(Way::position(i, extent)), line));
  }
  of.total[run] = sum;
  if constexpr (Way::scan) {
    before.there = position > 0 && (!Way::masked || before.there);
    TILE_UNROLL
    for (int i = 0; i < runs; ++i) add_before(combine, of, run + i, before);
  }
}

// Steps. Each combines the totals of adjacent runs of so many elements, and of lanes and warps that differ in
// some bits; inner steps have combined those before.
template <int stride, int extent>
struct Lanes {
  static constexpr int lanes = (extent - 1) * stride, warps = 0, registers = 1;
  template <class Way, int runs, int, int, bool last, class Combine, class V>
  TILE static void join(Combine combine, Running<Way, V>& of, int line, const Meeting&) {
    const int digit = lane() / stride % extent, position = Way::position(digit, extent);
    constexpr int back = Way::reverse ? stride : -stride;
    TILE_UNROLL
    for (int run = 0; run < Way::count; run += runs) {
      Maybe<V> sum = of.total[run];
      if constexpr (!Way::scan) {
        // Combines into the lanes whose lowest bits are 0; the first lane then has the total.
        TILE_UNROLL
        for (int by = 1; by < extent; by *= 2)
          sum = joined(combine, sum, shuffle_maybe<Way>(sum, lane() + by * stride, line));
        of.total[run] = shuffle_maybe<Way>(sum, lane() - digit * stride, line);
      } else {
        TILE_UNROLL
        for (int by = 1; by < extent; by *= 2) {
          Maybe<V> other = shuffle_maybe<Way>(sum, lane() + by * back, line);
          other.there = other.there && position >= by;
          sum = joined(combine, other, sum);
        }
        Maybe<V> before = shuffle_maybe<Way>(sum, lane() + back, line);
        before.there = before.there && position > 0;
        TILE_UNROLL
        for (int i = 0; i < runs; ++i) add_before(combine, of, run + i, before);
        if (!last)
          of.total[run] =
              shuffle_maybe<Way>(sum, lane() + (Way::position(extent - 1, extent) - digit) * stride, line);
      }
    }
  }
};
template <int stride, int extent>
struct Warps {
  static constexpr int lanes = 0, warps = (extent - 1) * stride, registers = 1;
  template <class Way, int runs, int joined_lanes, int, bool last, class Combine, class V>
  TILE static void join(Combine combine, Running<Way, V>& of, int line, const Meeting& memory) {
    constexpr int same_lanes = joined_lanes | (Way::Of::replicas & 31), columns = count_of(31 & ~same_lanes);
    const int column = gathered_bits<31 & ~same_lanes>(lane()), digit = warp() / stride % extent;
    const auto slot = [&](int run, int warp) {
      return (run / runs * Way::Of::all_warps + warp) * columns + column;
    };
    if ((lane() & same_lanes) == 0) {
      TILE_UNROLL
      for (int run = 0; run < Way::count; run += runs)
        store_maybe<Way>(memory.block, slot(run, warp()), of.total[run], line);
    }
    synchronize(line);
    TILE_UNROLL
    for (int run = 0; run < Way::count; run += runs)
      join_slots<Way, runs, extent>(
          combine, of, run, Way::position(digit, extent), memory.block,
          [&](int other) { return slot(run, warp() + (other - digit) * stride); }, line);
    if (!Way::double_buffered) synchronize(line);
  }
};
// Each block sends its totals to the blocks that combine them. The buffers alternate: before a thread writes
// to a buffer again, it has synchronized with all its readers.
template <int stride, int extent>
struct Blocks {
  static constexpr int lanes = 0, warps = 0, registers = 1;
  template <class Way, int runs, int joined_lanes, int joined_warps, bool last, class Combine, class V>
  TILE static void join(Combine combine, Running<Way, V>& of, int line, const Meeting& memory) {
    constexpr int same_lanes = joined_lanes | (Way::Of::replicas & 31),
                  same_warps = joined_warps | Way::Of::replicas >> 5, other_lanes = 31 & ~same_lanes,
                  other_warps = (Way::Of::all_warps - 1) & ~same_warps, columns = count_of(other_lanes);
    const int own = block_of_cluster(), digit = own / stride % extent,
              column = gathered_bits<other_warps>(warp()) * columns + gathered_bits<other_lanes>(lane());
    const auto slot = [&](int run, int block) {
      return (run / runs * extent + block) * count_of(other_warps) * columns + column;
    };
    if ((lane() & same_lanes) == 0 && (warp() & same_warps) == 0) {
      TILE_UNROLL
      for (int run = 0; run < Way::count; run += runs) {
        TILE_UNROLL
        for (int to = 0; to < extent; ++to)
          send_maybe<Way>(own + (to - digit) * stride, memory.cluster, slot(run, digit), of.total[run], line);
      }
    }
    arrive_in_cluster(line);
    wait_in_cluster(line);
    TILE_UNROLL
    for (int run = 0; run < Way::count; run += runs)
      join_slots<Way, runs, extent>(combine, of, run, Way::position(digit, extent), memory.cluster,
                                    [&](int other) { return slot(run, other); }, line);
  }
};
template <int extent>
struct Registers {
  static constexpr int lanes = 0, warps = 0, registers = extent;
  template <class Way, int runs, int, int, bool, class Combine, class V>
  TILE static void join(Combine combine, Running<Way, V>& of, int, const Meeting&) {
    TILE_UNROLL
    for (int run = 0; run < Way::count; run += runs * extent) {
      Maybe<V> sum = of.total[run + Way::position(0, extent) * runs];
      TILE_UNROLL
      for (int i = 1; i < extent; ++i) {
        const int next = run + Way::position(i, extent) * runs;
        const Maybe<V> total = of.total[next];
        if (Way::scan) {
          TILE_UNROLL
          for (int k = 0; k < runs; ++k) add_before(combine, of, next + k, sum);
        }
        sum = joined(combine, sum, total);
      }
      of.total[run] = sum;
    }
  }
};

template <class... Step>
struct Steps {
  template <class Way, int runs, int lanes, int warps, class Combine, class V>
  TILE static void join(Combine, Running<Way, V>&, int, const Meeting&) {}
};
template <class Step, class... More>
struct Steps<Step, More...> {
  template <class Way, int runs, int lanes, int warps, class Combine, class V>
  TILE static void join(Combine combine, Running<Way, V>& of, int line, const Meeting& memory) {
    Step::template join<Way, runs, lanes, warps, sizeof...(More) == 0>(combine, of, line, memory);
    Steps<More...>::template join<Way, runs * Step::registers, lanes | Step::lanes, warps | Step::warps>(
        combine, of, line, memory);
  }
};

// For a scan, the running values of each run replace its elements.
template <class Way, class V, class Combine, class... Tiles>
TILE auto joined_runs(Combine combine, int line, const Meeting& memory, Tiles&... tiles) {
  Running<Way, V> of;
  TILE_UNROLL
  for (int run = 0; run < Way::count; ++run) {
    int r = Way::element(run, 0);
    Maybe<V> sum = {values_at(r, tiles...), Way::there(r)};
    TILE_UNROLL
    for (int i = 1; i < Way::Of::length; ++i) {
      r = Way::element(run, i);
      sum = joined(combine, sum, Maybe<V>{values_at(r, tiles...), Way::there(r)});
      if constexpr (Way::scan) put_values(r, sum.values, tiles...);
    }
    of.total[run] = sum;
    of.before[run] = {sum.values, false};
  }
  Way::Of::Joins::template join<Way, 1, 0, 0>(combine, of, line, memory);
  return of;
}

// combine(accumulated, next) changes the first of two Values. To is the layout without the axis.
template <class Plan, class To, bool double_buffered, class Combine, class L, class... T>
TILE auto combine_axis(Combine combine, int line, const Meeting& memory, const Tile<T, L>&... tiles) {
  using Way = tile::Way<Plan, L, false, false, double_buffered>;
  const auto of = joined_runs<Way, Values<T...>>(combine, line, memory, tiles...);
  Tile<Values<T...>, To> to;
  TILE_UNROLL
  for (int r = 0; r < To::registers; ++r) to.x[r] = of.total[r * Plan::runs].values;
  return to;
}
// The running values replace the elements. The preceding total is added to each run at the end instead of
// being carried through it, so that sums are rounded fewer times.
template <class Plan, bool reverse, bool double_buffered, class Combine, class L, class... T>
TILE void scan_axis(Combine combine, int line, const Meeting& memory, Tile<T, L>&... tiles) {
  using Way = tile::Way<Plan, L, true, reverse, double_buffered>;
  const auto of = joined_runs<Way, Values<T...>>(combine, line, memory, tiles...);
  TILE_UNROLL
  for (int run = 0; run < Way::count; ++run) {
    TILE_UNROLL
    for (int i = 0; i < Plan::length; ++i) {
      const int r = Way::element(run, i);
      const Maybe<Values<T...>> inside = {values_at(r, tiles...), Way::there(r)};
      put_values(r, joined(combine, of.before[run], inside).values, tiles...);
    }
  }
}

// Returns the value of tile i among tiles that are combined at once.
template <int i, class V>
TILE auto value_of(const V& values) {
  if constexpr (i == 0)
    return values.x;
  else
    return value_of<i - 1>(values.more);
}
template <int i, class T, class L, class V>
TILE Tile<T, L> tile_of(const Tile<V, L>& from) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = value_of<i>(from.x[r]);
  return to;
}

}  // namespace tile
