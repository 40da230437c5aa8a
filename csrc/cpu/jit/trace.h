// The recording counterpart of Vec<float>: the vector functions of cpu/vecmath, instantiated with these
// types, record their computations.
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cpu/jit/micro.h"

namespace tile::cpu::jit {

// Known properties of a value's NaNs, if it has any: the low half is zero, or the quiet bit is set.
struct NanBits {
  bool low_zero = false, quiet = false;
};

// The recorded micro-operations in order, without duplicates.
class Trace {
 public:
  std::vector<MicroOp> ops;
  std::vector<NanBits> nans;  // by micro-operation
  std::vector<int> guards;    // masks: the quick way is valid if all their lanes are set
  std::vector<int> numbers;   // values that are not NaN if the guards hold
  bool quick = true;          // all(mask) returns true and records a guard
  bool wide = false;          // AVX-512 instructions are available

  int add(Micro micro, int a = -1, int b = -1, int c = -1, uint32_t immediate = 0);
  int input(Micro micro, int input, bool bf16) {
    const int value = add(micro, -1, -1, -1, static_cast<uint32_t>(input));
    nans[static_cast<size_t>(value)].low_zero = bf16;
    return value;
  }
  int constant(uint32_t bits) { return add(Micro::constant, -1, -1, -1, bits); }

  // The trace that this thread records to.
  static Trace*& current() {
    static thread_local Trace* trace = nullptr;
    return trace;
  }

 private:
  int folded(Micro micro, int a, int b, int c, uint32_t immediate);
  NanBits nan_bits(const MicroOp& op) const;
};

inline int record(Micro micro, int a = -1, int b = -1, int c = -1, uint32_t immediate = 0) {
  return Trace::current()->add(micro, a, b, c, immediate);
}

struct TracedMask {
  int id = -1;
  friend TracedMask operator&(TracedMask a, TracedMask b) { return {record(Micro::bit_and, a.id, b.id)}; }
  friend TracedMask operator|(TracedMask a, TracedMask b) { return {record(Micro::bit_or, a.id, b.id)}; }
  friend TracedMask operator^(TracedMask a, TracedMask b) { return {record(Micro::bit_xor, a.id, b.id)}; }
  friend TracedMask operator~(TracedMask a) {
    return {record(Micro::bit_xor, a.id, Trace::current()->constant(~0u))};
  }
};

struct TracedBits;
// A vector in a trace: the number of the micro-operation that computes it.
template <class Self, class Lane>
struct TracedLanes {
  using Element = Lane;
  using MaskType = TracedMask;
  using Bits = TracedBits;
  int id = -1;
  TracedLanes() = default;
  explicit TracedLanes(Lane lane) : id(Trace::current()->constant(std::bit_cast<uint32_t>(lane))) {}
  static Self of(int id) {
    Self lanes;
    lanes.id = id;
    return lanes;
  }
};

struct TracedBits : TracedLanes<TracedBits, int32_t> {
  using TracedLanes::TracedLanes;
  friend TracedBits operator+(TracedBits a, TracedBits b) {
    return of(record(Micro::add_integer, a.id, b.id));
  }
  friend TracedBits operator-(TracedBits a, TracedBits b) {
    return of(record(Micro::sub_integer, a.id, b.id));
  }
  friend TracedBits operator*(TracedBits a, TracedBits b) {
    return of(record(Micro::mul_integer, a.id, b.id));
  }
  friend TracedBits operator-(TracedBits a) { return TracedBits(0) - a; }
  friend TracedBits operator&(TracedBits a, TracedBits b) { return of(record(Micro::bit_and, a.id, b.id)); }
  friend TracedBits operator|(TracedBits a, TracedBits b) { return of(record(Micro::bit_or, a.id, b.id)); }
  friend TracedBits operator^(TracedBits a, TracedBits b) { return of(record(Micro::bit_xor, a.id, b.id)); }
  friend TracedBits operator~(TracedBits a) { return a ^ TracedBits(-1); }
  friend TracedBits operator<<(TracedBits a, int n) {
    return of(record(Micro::shift_left, a.id, -1, -1, static_cast<uint32_t>(n)));
  }
  friend TracedBits operator>>(TracedBits a, int n) {
    return of(record(Micro::shift_right, a.id, -1, -1, static_cast<uint32_t>(n)));
  }
  friend TracedMask operator<(TracedBits a, TracedBits b) {
    return {record(Micro::greater_integer, b.id, a.id)};
  }
  friend TracedMask operator>(TracedBits a, TracedBits b) {
    return {record(Micro::greater_integer, a.id, b.id)};
  }
  friend TracedMask operator==(TracedBits a, TracedBits b) {
    return {record(Micro::equal_integer, a.id, b.id)};
  }
  friend TracedMask operator!=(TracedBits a, TracedBits b) { return ~(a == b); }
  friend TracedMask operator<=(TracedBits a, TracedBits b) { return ~(a > b); }
  friend TracedMask operator>=(TracedBits a, TracedBits b) { return ~(b > a); }
};

struct Traced : TracedLanes<Traced, float> {
  using TracedLanes::TracedLanes;
  friend Traced operator+(Traced a, Traced b) { return of(record(Micro::add, a.id, b.id)); }
  friend Traced operator-(Traced a, Traced b) { return of(record(Micro::sub, a.id, b.id)); }
  friend Traced operator*(Traced a, Traced b) { return of(record(Micro::mul, a.id, b.id)); }
  friend Traced operator/(Traced a, Traced b) { return of(record(Micro::div, a.id, b.id)); }
  friend Traced operator-(Traced a) { return of(record(Micro::bit_xor, a.id, Traced(-0.f).id)); }
  friend TracedMask operator<(Traced a, Traced b) { return compare(a, b, 1); }
  friend TracedMask operator<=(Traced a, Traced b) { return compare(a, b, 2); }
  friend TracedMask operator>(Traced a, Traced b) { return compare(b, a, 1); }
  friend TracedMask operator>=(Traced a, Traced b) { return compare(b, a, 2); }
  friend TracedMask operator==(Traced a, Traced b) { return compare(a, b, 0); }
  friend TracedMask operator!=(Traced a, Traced b) { return compare(a, b, 4); }

 private:
  static TracedMask compare(Traced a, Traced b, uint32_t predicate) {
    return {record(Micro::compare, a.id, b.id, -1, predicate)};
  }
};

inline Traced fma(Traced a, Traced b, Traced c) { return Traced::of(record(Micro::fused, a.id, b.id, c.id)); }
inline Traced fnma(Traced a, Traced b, Traced c) {
  return Traced::of(record(Micro::fused_negative, a.id, b.id, c.id));
}
inline Traced fma_once(Traced a, Traced b, Traced c) { return fma(a, b, c); }
inline Traced fnma_once(Traced a, Traced b, Traced c) { return fnma(a, b, c); }
inline Traced min(Traced a, Traced b) { return Traced::of(record(Micro::min, a.id, b.id)); }
inline Traced max(Traced a, Traced b) { return Traced::of(record(Micro::max, a.id, b.id)); }
inline TracedBits min(TracedBits a, TracedBits b) {
  return TracedBits::of(record(Micro::min_integer, a.id, b.id));
}
inline TracedBits max(TracedBits a, TracedBits b) {
  return TracedBits::of(record(Micro::max_integer, a.id, b.id));
}
inline Traced scale(Traced x, Traced n) { return Traced::of(record(Micro::scale, x.id, n.id)); }
inline Traced in_range(Traced a, Traced b, RangeMode mode) {
  return Traced::of(record(Micro::range, a.id, b.id, -1, mode));
}
inline Traced lesser(Traced a, Traced b) { return in_range(a, b, range_lesser); }
inline Traced greater(Traced a, Traced b) { return in_range(a, b, range_greater); }
inline bool is_quiet(Traced x) { return Trace::current()->nans[static_cast<size_t>(x.id)].quiet; }
inline Traced quiet(Traced x) { return is_quiet(x) ? x : greater(x, x); }
inline Traced limited(Traced x, Traced limit) { return in_range(x, limit, range_nearer_0); }
template <int shift>
Traced power_of_sixteenths(TracedBits bits) {
  const int table = record(Micro::table, -1, -1, -1, static_cast<uint32_t>(shift));
  return Traced::of(record(Micro::lookup, bits.id, table));
}
inline bool is_wide(Traced) { return Trace::current()->wide; }
inline Traced sqrt(Traced x) { return Traced::of(record(Micro::square_root, x.id)); }
// The modes are the instruction's, with exceptions suppressed.
inline Traced round(Traced x) { return Traced::of(record(Micro::round, x.id, -1, -1, 8)); }
inline Traced floor(Traced x) { return Traced::of(record(Micro::round, x.id, -1, -1, 9)); }
inline Traced ceil(Traced x) { return Traced::of(record(Micro::round, x.id, -1, -1, 10)); }
inline Traced trunc(Traced x) { return Traced::of(record(Micro::round, x.id, -1, -1, 11)); }
inline Traced abs(Traced x) {
  return Traced::of(record(Micro::bit_and, x.id, Trace::current()->constant(0x7fffffff)));
}
inline Traced to_float(TracedBits x) { return Traced::of(record(Micro::from_integer, x.id)); }
inline Traced select(TracedMask m, Traced yes, Traced no) {
  return Traced::of(record(Micro::select, m.id, yes.id, no.id));
}
inline TracedBits select(TracedMask m, TracedBits yes, TracedBits no) {
  return TracedBits::of(record(Micro::select, m.id, yes.id, no.id));
}
template <class To>
TracedMask mask_cast(TracedMask m) {
  return m;
}
template <class To, class From>
requires std::derived_from<From, TracedLanes<From, typename From::Element>> To bit_cast(From x) {
  return To::of(x.id);
}
inline TracedBits shift_right_zeros(TracedBits x, int n) {
  return TracedBits::of(record(Micro::shift_right_zeros, x.id, -1, -1, static_cast<uint32_t>(n)));
}
// Rounds like a store and a load.
inline Traced round_to_f16(Traced x) {
  return Traced::of(record(Micro::from_half, record(Micro::to_half, x.id, -1, -1, 0)));
}
inline Traced number(Traced x) {
  if (Trace::current()->quick) Trace::current()->numbers.push_back(x.id);
  return x;
}
inline bool rounds_plainly(Traced x) {
  const Trace& trace = *Trace::current();
  const NanBits& nan = trace.nans[static_cast<size_t>(x.id)];
  return nan.low_zero ||
         (trace.quick && std::find(trace.numbers.begin(), trace.numbers.end(), x.id) != trace.numbers.end());
}
inline bool all(TracedMask m) {
  Trace& trace = *Trace::current();
  if (trace.quick) trace.guards.push_back(m.id);
  return trace.quick;
}

}  // namespace tile::cpu::jit
