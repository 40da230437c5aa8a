// Branches and loops: their bodies are computed again in a region that goes on with the adjoints.
#include <algorithm>
#include <optional>

#include "derive/backward.h"
#include "derive/recomputed.h"

namespace tile {

Value* Backward::zeros_like(const Value* value) {
  const Type type = adjoint_type(value->type);
  return build_.splat(Constant::of(type.dtype, 0), type.shape);
}

// Copies the ops of a region to `to`, whose arguments are in `map`, and emits adjoints behind them. seeds:
// the adjoints of the values that the region yields; null: none. The caller sets the place of further ops.
Backward::Body Backward::again(const Block& from, std::unique_ptr<Block> to, ValueMap& map,
                               const std::vector<Value*>& seeds, const LastMaximum* last) {
  Body body{std::move(to), {}, {}, {}};
  Block& block = *body.block;
  std::vector<Op*> ops;
  build_.to_end(block);
  // Returns the value that equals an op's result if the maximum is the last one; null: it is computed again.
  const auto known = [&](const Op& op) -> Value* {
    const auto origin = last && op.results.size() == 1 ? origin_.find(op.result()) : origin_.end();
    if (origin == origin_.end()) return nullptr;
    if (origin->second == last->loop->next) return last->value;
    const auto scaled = last->loop->scaled.find(origin->second);
    if (scaled == last->loop->scaled.end()) return nullptr;
    Value* same = op.operands[scaled->second];
    replace(same, map);
    return same;
  };
  for (const auto& op : from.ops) {
    if (op->traits().terminator) continue;
    if (Value* value = known(*op)) {
      map[op->result()] = value;
      continue;
    }
    Op& copy = build_.insert(clone(*op, function_, map));
    ops.push_back(&copy);
    note_loop(*op, copy);
  }
  note_copies(map, last);
  body.yields = from.terminator()->operands;
  for (Value*& value : body.yields) replace(value, map);
  frames_.push_back({&block, {}, {}});
  for (size_t i = 0; i < seeds.size(); ++i)
    if (seeds[i]) add(body.yields[i], seeds[i]);
  backward(ops);
  body.frame = std::move(frames_.back());
  frames_.pop_back();
  for (Value* value : body.frame.order)
    if (!defined_inside(value, block)) body.captured.push_back(value);
  const ValueMap loaded = load_saved(block);
  for (Value*& value : body.yields) replace(value, loaded);
  for (auto& [value, part] : body.frame.parts) replace(part, loaded);
  remove_forward_effects(block);
  return body;
}

void Backward::if_op(Op& op) {
  std::vector<Value*> seeds;
  bool given = writes_results(op);
  for (const Value* result : op.results) {
    seeds.push_back(adjoint(result));
    given |= seeds.back() != nullptr;
  }
  if (!given) return;
  std::vector<Body> bodies;
  std::vector<Value*> captured;
  for (const auto& region : op.regions) {
    ValueMap map;
    bodies.push_back(again(*region, std::make_unique<Block>(), map, seeds));
    for (Value* value : bodies.back().captured)
      if (std::find(captured.begin(), captured.end(), value) == captured.end()) captured.push_back(value);
  }
  for (Body& body : bodies) {
    build_.to_end(*body.block);
    build_.location = op.location;
    std::vector<Value*> yields;
    for (Value* value : captured) {
      const auto part = body.frame.parts.find(value);
      yields.push_back(part == body.frame.parts.end() ? zeros_like(value) : part->second);
    }
    build_.create(primitive("yield"), std::move(yields));
  }
  build_.to_end(*frames_.back().block);
  const std::vector<Value*> parts =
      build_.insert_if(op.operands[0], std::move(bodies[0].block), std::move(bodies[1].block)).results;
  for (size_t i = 0; i < captured.size(); ++i) add(captured[i], parts[i]);
}

// The adjoint loop may run in the kernel's order if no adjoint that it carries changes, as with sums, and all
// carried values that it needs are computed again on the way.
bool Backward::runs_forward(const Loop& loop) {
  for (size_t k = 0; k < loop.adjoints.size(); ++k)
    if (loop.adjoints[k] && (loop.needed[k] || loop.results[k] != loop.adjoints[k])) return false;
  return true;
}

void Backward::for_op(Op& op) {
  Loop loop{.op = op};
  bool given = writes_results(op);
  for (const Value* result : op.results) {
    loop.seeds.push_back(adjoint(result));
    given |= loop.seeds.back() != nullptr;
  }
  if (!given) return;
  if (!online(loop)) differentiate(loop, nullptr);
  insert_loop(loop);
}

// Takes the last maximum for that of each iteration, if the loop is an online softmax. Returns false if the
// adjoints need sums of earlier iterations, which are multiples of other maxima.
bool Backward::online(Loop& loop) {
  const auto known = online_.find(loop_origin_.at(&loop.op));
  if (known == online_.end()) return false;
  Loop changed = {.op = loop.op, .seeds = loop.seeds};
  const size_t maximum = known->second.maximum;
  changed.seeds[maximum] = nullptr;
  const LastMaximum last{&known->second, build_.emit("detach", {loop.op.results[maximum]})};
  differentiate(changed, &last);
  find_used(changed);
  if (!runs_forward(changed)) return false;
  for (size_t k = 0; k < changed.needed.size(); ++k)
    if (changed.needed[k] && is_floating(changed.before[k]->type.dtype)) return false;
  loop.seeds = std::move(changed.seeds);
  loop.index = changed.index;
  loop.before = std::move(changed.before);
  loop.adjoints = std::move(changed.adjoints);
  loop.body = std::move(changed.body);
  loop.results = std::move(changed.results);
  return true;
}

// Fills the loop's body, which computes the iteration again and then its adjoints.
void Backward::differentiate(Loop& loop, const LastMaximum* last) {
  const Op& op = loop.op;
  const Location location = op.location;
  const Block& region = op.region();
  auto block = std::make_unique<Block>();
  ValueMap map;
  const auto argument = [&](const Type& type) { return function_.add_argument(*block, type, location); };
  map[region.arguments[0]] = loop.index = argument(region.arguments[0]->type);
  for (size_t k = 0; k < op.results.size(); ++k) {
    loop.before.push_back(argument(region.arguments[1 + k]->type));
    map[region.arguments[1 + k]] = last && k == last->loop->maximum ? last->value : loop.before[k];
  }
  for (size_t k = 0; k < op.results.size(); ++k)
    loop.adjoints.push_back(active(region.arguments[1 + k]) && !(last && k == last->loop->maximum)
                                ? argument(adjoint_type(loop.before[k]->type))
                                : nullptr);
  loop.body = again(region, std::move(block), map, loop.adjoints, last);
  for (Value* value : loop.before) {
    const auto part = loop.body.frame.parts.find(value);
    loop.results.push_back(part == loop.body.frame.parts.end() ? nullptr : part->second);
  }
}

void Backward::insert_loop(Loop& loop) {
  Op& op = loop.op;
  Block& block = *loop.body.block;
  Block& outside = *frames_.back().block;
  const auto& captured = loop.body.captured;
  build_.location = op.location;
  find_used(loop);
  const bool forward = runs_forward(loop);
  if (forward) loop.used = loop.needed;
  build_.to_end(outside);
  std::vector<Value*> bounds(op.operands.begin(), op.operands.begin() + 3), initial, yields;
  std::vector<Value*> arguments{loop.index};
  std::optional<Segments> segments;
  ValueMap replaced;
  if (forward) {
    for (size_t k = 0; k < loop.before.size(); ++k) {
      if (loop.adjoints[k])
        replaced[loop.adjoints[k]] = loop.seeds[k] ? loop.seeds[k] : zeros_like(loop.before[k]);
      if (!loop.used[k]) continue;
      arguments.push_back(loop.before[k]);
      initial.push_back(op.operands[3 + k]);
      yields.push_back(loop.body.yields[k]);
    }
    replace_uses(block, replaced);
    for (auto& [value, part] : loop.body.frame.parts) replace(part, replaced);
  } else {
    for (size_t k = 0; k < loop.before.size(); ++k) {
      if (!loop.adjoints[k]) continue;
      arguments.push_back(loop.adjoints[k]);
      initial.push_back(loop.seeds[k] ? loop.seeds[k] : zeros_like(loop.before[k]));
    }
    Value* turn = arguments[0] = function_.add_argument(block, loop.index->type, op.location);
    if (keeping_of(loop) != Keeping::all)
      segments = open_segments(loop, turn);
    else
      bounds = turn_back(loop, turn);
    build_.to_end(block);
    for (size_t k = 0; k < loop.before.size(); ++k)
      if (loop.adjoints[k]) yields.push_back(loop.results[k] ? loop.results[k] : zeros_like(loop.before[k]));
    build_.to_end(outside);
  }
  // Only dead ops use the other carried values.
  ValueMap unused;
  for (size_t k = 0; k < loop.before.size(); ++k) {
    if (loop.used[k]) continue;
    const Type& type = loop.before[k]->type;
    unused[loop.before[k]] = build_.splat(Constant::of(type.dtype, 0), type.shape);
  }
  replace_uses(block, unused);
  // Adjoints of what the body takes from outside are sums over the iterations.
  for (Value* value : captured) {
    Value* before = adjoint(value);
    initial.push_back(before ? before : zeros_like(value));
    arguments.push_back(function_.add_argument(block, adjoint_type(value->type), op.location));
  }
  build_.to_end(block);
  for (size_t i = 0; i < captured.size(); ++i)
    yields.push_back(
        sum(arguments[arguments.size() - captured.size() + i], loop.body.frame.parts.at(captured[i])));
  build_.create(primitive("yield"), yields);
  block.arguments = arguments;
  build_.to_end(outside);
  const std::vector<Value*> results =
      segments ? close_segments(loop, *segments, initial)
               : build_.insert_for(bounds, initial, std::move(loop.body.block)).results;
  Frame& frame = frames_.back();
  for (size_t i = 0; i < captured.size(); ++i) {
    Value* part = results[results.size() - captured.size() + i];
    if (frame.parts.insert_or_assign(captured[i], part).second) frame.order.push_back(captured[i]);
  }
  size_t next = 0;
  for (size_t k = 0; k < loop.before.size(); ++k) {
    if (!loop.adjoints[k]) continue;
    Value* part = forward ? loop.seeds[k] : results[next++];
    if (part) add(op.operands[3 + k], part);
  }
}

}  // namespace tile
