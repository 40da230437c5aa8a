// Units that read or write a tile at computed places of an array. `Places` says which: its
// each_run(frame, visit) calls visit(element of the tile, address, stride in bytes, count) for each run of
// elements that is there.
#pragma once
#include <memory>
#include <utility>

#include "cpu/operand.h"
#include "cpu/tables.h"

namespace tile::cpu {

template <class Places>
struct ReadUnit final : Unit {
  ReadUnit(Lower& lower, const Op& op, Places places)
      : places(std::move(places)), to(WholeResult::of(lower, op.results[0])), pad(op.number("pad")) {}
  Places places;
  WholeResult to;
  double pad;

  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(to.dtype);
    const int64_t element = lane_bytes(lane_of(to.dtype));
    char* out = to.lanes(frame);
    move.fill(out, pad, to.count());
    places.each_run(frame, [&](int64_t i, const char* address, int64_t stride, int64_t count) {
      move.load(address, 0, stride, out + i * element, count * element, 1, count);
    });
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};

template <class Places>
struct WriteUnit final : Unit {
  WriteUnit(Lower& lower, const Op& op, Places places)
      : places(std::move(places)), value(WholeOperand::of(lower, op.operands[1])) {}
  Places places;
  WholeOperand value;

  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(value.dtype);
    const int64_t element = lane_bytes(lane_of(value.dtype));
    const char* from = value.lanes(frame);
    places.each_run(frame, [&](int64_t i, char* address, int64_t stride, int64_t count) {
      move.store(address, 0, stride, from + i * element, count * element, 1, count);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};

// Lowerings of ops whose places are Places(lower, op, the first operand that says where).
template <class Places>
std::unique_ptr<Unit> lower_read(Lower& lower, const Op& op) {
  return std::make_unique<ReadUnit<Places>>(lower, op, Places(lower, op, 1));
}
template <class Places>
std::unique_ptr<Unit> lower_write(Lower& lower, const Op& op) {
  return std::make_unique<WriteUnit<Places>>(lower, op, Places(lower, op, 2));
}

}  // namespace tile::cpu
