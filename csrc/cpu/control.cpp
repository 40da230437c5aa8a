// Units of structured control flow.
#include "cpu/control.h"

#include "cpu/address.h"
#include "cpu/carry.h"
#include "cpu/watch.h"

namespace tile::cpu {
namespace {

using Receivers = std::vector<const Value*>;

Receivers receivers(const std::vector<Value*>& values, size_t from = 0) {
  return Receivers(values.begin() + static_cast<ptrdiff_t>(from), values.end());
}

void set_integer(Scalar& scalar, Lane lane, int64_t value) {
  scalar.i = 0;
  if (lane_bytes(lane) == 8)
    scalar.i = value;
  else
    scalar.u = static_cast<uint64_t>(value) & ((uint64_t{1} << 8 * lane_bytes(lane)) - 1);
}

// Enters a loop: initial values become the arguments.
std::unique_ptr<Carry> entry(Lower& lower, const std::vector<Value*>& initial, const Receivers& arguments) {
  for (const Value* argument : arguments)
    if (!argument->type.is_scalar()) lower.owned_slot(argument);
  return std::make_unique<Carry>(lower, nullptr, initial, arguments);
}

struct ForUnit final : Unit {
  ScalarSlot low, high, step, index;
  std::unique_ptr<Carry> enter, leave;
  Units body;
  int every;  // how many iterations run between two looks at the launch's watch
  Signal run(Frame& frame) const override {
    const int64_t last = integer(frame, high), by = integer(frame, step);
    enter->run(frame);
    Glance glance(every);
    for (int64_t i = integer(frame, low); i < last; i += by) {
      set_integer(frame.scalars[static_cast<size_t>(index.id)], index.lane, i);
      run_units(body, frame);
      glance(frame.watch);
      // The next index may not fit int64.
      if (static_cast<uint64_t>(last) - static_cast<uint64_t>(i) <= static_cast<uint64_t>(by)) break;
    }
    leave->run(frame);
    return Signal::next;
  }
};

struct LoopUnit final : Unit {
  std::unique_ptr<Carry> enter;
  Units body;
  int every;
  Signal run(Frame& frame) const override {
    enter->run(frame);
    Glance glance(every);
    while (run_units(body, frame) != Signal::leave_loop) glance(frame.watch);
    return Signal::next;
  }
};

struct IfUnit final : Unit {
  int condition;
  Units then, otherwise;
  Signal run(Frame& frame) const override {
    bool holds = frame.scalars[static_cast<size_t>(condition)].bytes[0] != 0;
    return run_units(holds ? then : otherwise, frame);
  }
};

struct TerminatorUnit final : Unit {
  std::unique_ptr<Carry> carry;
  Signal signal;
  Signal run(Frame& frame) const override {
    carry->run(frame);
    return signal;
  }
};

const Op& enclosing_loop(const Op& op) {
  const Op* at = &op;
  while (at && !at->is("loop")) at = at->parent ? at->parent->parent : nullptr;
  if (!at) fail(op, ErrorKind::value, "stands outside any loop");
  return *at;
}

std::unique_ptr<Unit> lower_for(Lower& lower, const Op& op) {
  auto unit = std::make_unique<ForUnit>();
  const Block& body = op.region();
  unit->low = lower.index(op.operands[0]);
  unit->high = lower.index(op.operands[1]);
  unit->step = lower.index(op.operands[2]);
  unit->index = lower.index(body.arguments[0]);
  unit->every = Glance::every(cost_of(body));
  Receivers arguments = receivers(body.arguments, 1);
  unit->enter = entry(lower, {op.operands.begin() + 3, op.operands.end()}, arguments);
  unit->body = lower.block(body);
  for (size_t i = 0; i < op.results.size(); ++i)
    if (!op.results[i]->type.is_scalar()) lower.share_slot(op.results[i], arguments[i]);
  unit->leave = std::make_unique<Carry>(lower, nullptr,
                                        std::vector<Value*>(body.arguments.begin() + 1, body.arguments.end()),
                                        receivers(op.results));
  return unit;
}

std::unique_ptr<Unit> lower_loop(Lower& lower, const Op& op) {
  auto unit = std::make_unique<LoopUnit>();
  for (const Value* result : op.results)
    if (!result->type.is_scalar()) lower.owned_slot(result);
  unit->enter = entry(lower, op.operands, receivers(op.region().arguments));
  unit->body = lower.block(op.region());
  unit->every = Glance::every(cost_of(op.region()));
  return unit;
}

std::unique_ptr<Unit> lower_if(Lower& lower, const Op& op) {
  auto unit = std::make_unique<IfUnit>();
  for (const Value* result : op.results)
    if (!result->type.is_scalar()) lower.owned_slot(result);
  unit->condition = lower.scalar(op.operands[0]);
  unit->then = lower.block(op.region(0));
  unit->otherwise = lower.block(op.region(1));
  return unit;
}

}  // namespace

std::unique_ptr<Unit> control_unit(Lower& lower, const Op& op) {
  static const struct {
    std::string_view name;
    std::unique_ptr<Unit> (*lower)(Lower&, const Op&);
  } table[] = {{"for", lower_for}, {"loop", lower_loop}, {"if", lower_if}};
  for (const auto& row : table)
    if (op.is(row.name)) return row.lower(lower, op);
  fail(op, ErrorKind::unsupported, "has no CPU implementation");
}

std::unique_ptr<Unit> terminator_unit(Lower& lower, const Op& terminator) {
  auto unit = std::make_unique<TerminatorUnit>();
  const Op& parent = *terminator.parent->parent;
  Receivers to;
  unit->signal = Signal::next;
  if (terminator.is("yield")) {
    to = parent.is("for") ? receivers(parent.region().arguments, 1) : receivers(parent.results);
  } else {
    const Op& loop = enclosing_loop(terminator);
    bool leaves = terminator.is("break");
    unit->signal = leaves ? Signal::leave_loop : Signal::next_turn;
    to = leaves ? receivers(loop.results) : receivers(loop.region().arguments);
  }
  unit->carry = std::make_unique<Carry>(lower, terminator.parent, terminator.operands, to);
  return unit;
}

}  // namespace tile::cpu
