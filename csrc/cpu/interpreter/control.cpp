// Op nodes of structured control flow.
#include "cpu/interpreter/control.h"

#include "cpu/interpreter/address.h"
#include "cpu/interpreter/parallel_copy.h"
#include "cpu/interpreter/watch.h"

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

// Enters a loop: copies the initial values to the arguments.
std::unique_ptr<ParallelCopy> entry(LoweringContext& lower, const std::vector<Value*>& initial,
                                    const Receivers& arguments) {
  for (const Value* argument : arguments)
    if (!argument->type.is_scalar()) lower.owned_slot(argument);
  return std::make_unique<ParallelCopy>(lower, nullptr, initial, arguments);
}

struct ForNode final : OpNode {
  ScalarSlot low, high, step, index;
  std::unique_ptr<ParallelCopy> enter, leave;
  OpNodes body;
  int every;  // iterations between two checks of the launch's watch
  Signal run(Frame& frame) const override {
    const int64_t last = integer(frame, high), by = integer(frame, step);
    enter->run(frame);
    Glance glance(every);
    for (int64_t i = integer(frame, low); i < last; i += by) {
      set_integer(frame.scalars[static_cast<size_t>(index.id)], index.lane, i);
      run_nodes(body, frame);
      glance(frame.watch);
      // The next index may not fit int64.
      if (static_cast<uint64_t>(last) - static_cast<uint64_t>(i) <= static_cast<uint64_t>(by)) break;
    }
    leave->run(frame);
    return Signal::next;
  }
};

struct LoopNode final : OpNode {
  std::unique_ptr<ParallelCopy> enter;
  OpNodes body;
  int every;
  Signal run(Frame& frame) const override {
    enter->run(frame);
    Glance glance(every);
    while (run_nodes(body, frame) != Signal::leave_loop) glance(frame.watch);
    return Signal::next;
  }
};

struct IfNode final : OpNode {
  int condition;
  OpNodes then, otherwise;
  Signal run(Frame& frame) const override {
    bool holds = frame.scalars[static_cast<size_t>(condition)].bytes[0] != 0;
    return run_nodes(holds ? then : otherwise, frame);
  }
};

struct TerminatorNode final : OpNode {
  std::unique_ptr<ParallelCopy> parallel_copy;
  Signal signal;
  Signal run(Frame& frame) const override {
    parallel_copy->run(frame);
    return signal;
  }
};

const Op& enclosing_loop(const Op& op) {
  const Op* at = &op;
  while (at && !at->is("loop")) at = at->parent ? at->parent->parent : nullptr;
  if (!at) fail(op, ErrorKind::value, "is outside of any loop");
  return *at;
}

std::unique_ptr<OpNode> lower_for(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ForNode>();
  const Block& body = op.region();
  node->low = lower.index(op.operands[0]);
  node->high = lower.index(op.operands[1]);
  node->step = lower.index(op.operands[2]);
  node->index = lower.index(body.arguments[0]);
  node->every = Glance::every(cost_of(body));
  Receivers arguments = receivers(body.arguments, 1);
  node->enter = entry(lower, {op.operands.begin() + 3, op.operands.end()}, arguments);
  node->body = lower.block(body);
  for (size_t i = 0; i < op.results.size(); ++i)
    if (!op.results[i]->type.is_scalar()) lower.share_slot(op.results[i], arguments[i]);
  node->leave = std::make_unique<ParallelCopy>(
      lower, nullptr, std::vector<Value*>(body.arguments.begin() + 1, body.arguments.end()),
      receivers(op.results));
  return node;
}

std::unique_ptr<OpNode> lower_loop(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<LoopNode>();
  for (const Value* result : op.results)
    if (!result->type.is_scalar()) lower.owned_slot(result);
  node->enter = entry(lower, op.operands, receivers(op.region().arguments));
  node->body = lower.block(op.region());
  node->every = Glance::every(cost_of(op.region()));
  return node;
}

std::unique_ptr<OpNode> lower_if(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<IfNode>();
  for (const Value* result : op.results)
    if (!result->type.is_scalar()) lower.owned_slot(result);
  node->condition = lower.scalar(op.operands[0]);
  node->then = lower.block(op.region(0));
  node->otherwise = lower.block(op.region(1));
  return node;
}

}  // namespace

std::unique_ptr<OpNode> control_node(LoweringContext& lower, const Op& op) {
  static const struct {
    std::string_view name;
    std::unique_ptr<OpNode> (*lower)(LoweringContext&, const Op&);
  } table[] = {{"for", lower_for}, {"loop", lower_loop}, {"if", lower_if}};
  for (const auto& row : table)
    if (op.is(row.name)) return row.lower(lower, op);
  fail(op, ErrorKind::unsupported, "has no CPU implementation");
}

std::unique_ptr<OpNode> terminator_node(LoweringContext& lower, const Op& terminator) {
  auto node = std::make_unique<TerminatorNode>();
  const Op& parent = *terminator.parent->parent;
  Receivers to;
  node->signal = Signal::next;
  if (terminator.is("yield")) {
    to = parent.is("for") ? receivers(parent.region().arguments, 1) : receivers(parent.results);
  } else {
    const Op& loop = enclosing_loop(terminator);
    bool leaves = terminator.is("break");
    node->signal = leaves ? Signal::leave_loop : Signal::next_iteration;
    to = leaves ? receivers(loop.results) : receivers(loop.region().arguments);
  }
  node->parallel_copy = std::make_unique<ParallelCopy>(lower, terminator.parent, terminator.operands, to);
  return node;
}

}  // namespace tile::cpu
