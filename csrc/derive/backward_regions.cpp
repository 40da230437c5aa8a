// Branches and loops: their bodies are computed again in a region that goes on with the adjoints.
#include <algorithm>

#include "derive/backward.h"
#include "derive/recomputed.h"
#include "passes/liveness.h"

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
    const auto copy = map.find(same);
    return copy == map.end() ? same : copy->second;
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
  for (Value* value : from.terminator()->operands) {
    const auto copy = map.find(value);
    body.yields.push_back(copy == map.end() ? value : copy->second);
  }
  frames_.push_back({&block, {}, {}});
  for (size_t i = 0; i < seeds.size(); ++i)
    if (seeds[i]) add(body.yields[i], seeds[i]);
  backward(ops);
  body.frame = std::move(frames_.back());
  frames_.pop_back();
  for (Value* value : body.frame.order)
    if (!defined_inside(value, block)) body.captured.push_back(value);
  const ValueMap loaded = load_saved(block);
  const auto replace = [&](Value*& value) {
    if (const auto at = loaded.find(value); at != loaded.end()) value = at->second;
  };
  for (Value*& value : body.yields) replace(value);
  for (auto& [value, part] : body.frame.parts) replace(part);
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
  auto made = std::make_unique<Op>();
  made->primitive = op.primitive;
  made->location = op.location;
  made->operands = {op.operands[0]};
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
    made->regions.push_back(std::move(body.block));
  }
  build_.to_end(*frames_.back().block);
  const std::vector<Value*> parts = build_.insert(std::move(made)).results;
  for (size_t i = 0; i < captured.size(); ++i) add(captured[i], parts[i]);
}

struct Backward::Loop {
  Op& op;
  std::vector<Value*> seeds;     // adjoints of the results; null: none
  Value* index = nullptr;        // arguments of the new body
  std::vector<Value*> before;    // the carried values at the beginning of an iteration
  std::vector<Value*> adjoints;  // of the carried values at its end; null: of one that is not active
  Body body;
  std::vector<Value*> results;  // adjoints of the carried values at its beginning; null: none
  std::vector<bool> used;       // values of `before` that the adjoints are computed from
};

// The adjoint loop may run in the kernel's order if no adjoint that it carries changes, as with sums, and all
// carried values that it needs are computed again on the way.
bool Backward::runs_forward(Loop& loop) {
  const auto& captured = loop.body.captured;
  loop.used.assign(loop.before.size(), false);
  for (size_t k = 0; k < loop.adjoints.size(); ++k)
    if (loop.adjoints[k] && loop.results[k] != loop.adjoints[k]) return false;
  std::vector<Value*> roots;
  for (Value* value : captured) roots.push_back(loop.body.frame.parts.at(value));
  for (bool more = true; more;) {
    more = false;
    const Liveness live(*loop.body.block, roots);
    for (size_t k = 0; k < loop.before.size(); ++k) {
      if (loop.used[k] || !live.live(loop.before[k])) continue;
      if (loop.adjoints[k]) return false;
      more = loop.used[k] = true;
      roots.push_back(loop.body.yields[k]);
    }
  }
  return true;
}

// Stores the carried values that are used at the beginning of each iteration of the kernel's loop, and loads
// them in the adjoint loop.
void Backward::keep_trajectories(Loop& loop, Value* iteration) {
  Block& body = loop.op.region();
  Block& block = *loop.body.block;
  Builder store(function_, body), load(function_, block);
  store.location = load.location = loop.op.location;
  store.at(body, 0);
  load.at(block, build_.position());
  Value* count = nullptr;
  ValueMap replaced;
  for (size_t k = 0; k < loop.before.size(); ++k) {
    if (!loop.used[k]) continue;
    const Type type = loop.before[k]->type;
    const Shape shape = type.shape.empty() ? Shape{1} : type.shape;
    Value* array = function_.add_argument(
        function_.body(), Type::array(type.dtype, static_cast<int>(shape.size()) + 2), loop.op.location);
    derived_.scratch.push_back(
        {function_.body().arguments.size() - 1, type.dtype, shape, loop_origin_.at(&loop.op)});
    const auto place = [&](Builder& build, Value* number) {
      std::vector<Value*> operands{build.emit("index", {array, block_number(build), number})};
      for (size_t i = 0; i < shape.size(); ++i) operands.push_back(build.constant(DType::i32, 0));
      return operands;
    };
    if (!count)
      count = store.emit("floordiv",
                         {store.emit("sub", {body.arguments[0], loop.op.operands[0]}), loop.op.operands[2]});
    Value* value = body.arguments[1 + k];
    if (type.shape.empty()) value = store.emit("reshape", {value}, {{"shape", shape}});
    std::vector<Value*> operands = place(store, count);
    operands.insert(operands.begin() + 1, value);
    store.create(primitive("store"), std::move(operands), {{"steps", shape}});
    const Attribute pad = Constant::of(type.dtype, 0).attribute();
    Value* kept =
        load.emit("load", place(load, iteration), {{"pad", pad}, {"shape", shape}, {"steps", shape}});
    if (type.shape.empty()) kept = load.emit("reshape", {kept}, {{"shape", type.shape}});
    replaced[loop.before[k]] = kept;
  }
  replace_uses(block, replaced);
  const auto replace = [&](Value*& value) {
    if (const auto at = replaced.find(value); at != replaced.end()) value = at->second;
  };
  for (Value*& value : loop.results) replace(value);
  for (auto& [value, part] : loop.body.frame.parts) replace(part);
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
  if (!runs_forward(changed)) return false;
  for (size_t k = 0; k < changed.used.size(); ++k)
    if (changed.used[k] && is_floating(changed.before[k]->type.dtype)) return false;
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
  const bool forward = runs_forward(loop);
  build_.to_end(outside);
  std::vector<Value*> bounds(op.operands.begin(), op.operands.begin() + 3), initial, yields;
  std::vector<Value*> arguments{loop.index};
  std::vector<size_t> places;  // of the adjoints among the results
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
    for (auto& [value, part] : loop.body.frame.parts)
      if (const auto at = replaced.find(part); at != replaced.end()) part = at->second;
  } else {
    std::vector<Value*> roots;
    for (Value* value : loop.results)
      if (value) roots.push_back(value);
    for (Value* value : captured) roots.push_back(loop.body.frame.parts.at(value));
    const Liveness live(block, roots);
    for (size_t k = 0; k < loop.before.size(); ++k) loop.used[k] = live.live(loop.before[k]);
    // The last iteration comes first.
    const DType dtype = loop.index->type.dtype;
    Value *low = bounds[0], *step = bounds[2];
    Value* count = build_.emit("cdiv", {build_.emit("sub", {bounds[1], low}), step});
    bounds = {build_.constant(dtype, 0), count, build_.constant(dtype, 1)};
    for (size_t k = 0; k < loop.before.size(); ++k) {
      if (!loop.adjoints[k]) continue;
      arguments.push_back(loop.adjoints[k]);
      initial.push_back(loop.seeds[k] ? loop.seeds[k] : zeros_like(loop.before[k]));
    }
    Value* turn = function_.add_argument(block, loop.index->type, op.location);
    arguments[0] = turn;
    build_.at(block, 0);
    Value* last = build_.emit("sub", {count, build_.constant(dtype, 1)});
    Value* iteration = build_.emit("sub", {last, turn});
    Value* index = build_.emit("add", {low, build_.emit("mul", {iteration, step})});
    replace_uses(block, {{loop.index, index}});
    keep_trajectories(loop, iteration);
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
  auto made = std::make_unique<Op>();
  made->primitive = op.primitive;
  made->location = op.location;
  made->operands = bounds;
  made->operands.insert(made->operands.end(), initial.begin(), initial.end());
  made->regions.push_back(std::move(loop.body.block));
  build_.to_end(outside);
  const std::vector<Value*> results = build_.insert(std::move(made)).results;
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
