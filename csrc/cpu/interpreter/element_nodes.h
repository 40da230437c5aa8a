// Op nodes that read elements of an array into a tile or write them from one. A type parameter computes the
// addresses.
#pragma once
#include "cpu/interpreter/operand.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {

// Returns the position of the first index operand: after the array, and after the value if the op writes one.
inline size_t first_index(const Op& op) { return op.results.empty() ? 2 : 1; }

// Addresses(lower, op) has members array, [value], …, and each_run(frame, visit), which calls visit(element
// of the tile, address, stride in bytes, count) for runs of existing elements.
template <class Addresses>
struct ReadNode final : OpNode {
  Addresses addresses;
  WholeResult to;
  double pad;
  ReadNode(LoweringContext& lower, const Op& op)
      : addresses(lower, op), to(WholeResult::of(lower, op.results[0])), pad(op.number("pad")) {}
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(to.dtype);
    const int64_t element = lane_bytes(lane_of(to.dtype));
    char* out = to.lanes(frame);
    move.fill(out, pad, to.count());
    addresses.each_run(frame, [&](int64_t i, const char* address, int64_t stride, int64_t count) {
      move.load(address, 0, stride, out + i * element, count * element, 1, count);
    });
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};

template <class Addresses>
struct WriteNode final : OpNode {
  Addresses addresses;
  WholeOperand value;
  WriteNode(LoweringContext& lower, const Op& op)
      : addresses(lower, op), value(WholeOperand::of(lower, op.operands[1])) {}
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(value.dtype);
    const int64_t element = lane_bytes(lane_of(value.dtype));
    const char* from = value.lanes(frame);
    addresses.each_run(frame, [&](int64_t i, char* address, int64_t stride, int64_t count) {
      move.store(address, 0, stride, from + i * element, count * element, 1, count);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};

}  // namespace tile::cpu
