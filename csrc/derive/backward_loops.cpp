// Loops from the last iteration to the first: the carried values of an iteration are kept in memory, or
// computed again from those of an earlier one.
#include <algorithm>

#include "derive/backward.h"
#include "derive/recomputed.h"
#include "passes/liveness.h"

namespace tile {
namespace {

Shape kept_shape(const Type& type) { return type.shape.empty() ? Shape{1} : type.shape; }

Value* place_of(Builder& build, Value* array, Value* place) {
  return build.emit("index", {array, block_number(build), place});
}
void store_tile(Builder& build, Value* array, Value* place, Value* tile) {
  store_whole(build, place_of(build, array, place), kept_shape(tile->type), tile);
}
Value* load_tile(Builder& build, Value* array, Value* place, const Type& type) {
  return load_whole(build, place_of(build, array, place), kept_shape(type), type);
}

// Returns ceil(count / places), at least 1: each place stands for so many iterations.
Value* stride_of(Builder& build, Value* count, Value* array) {
  const DType dtype = count->type.dtype;
  Value* places = build.astype(build.emit("dim", {array}, {{"axis", 1}}), dtype);
  return build.emit("maximum", {build.emit("cdiv", {count, places}), build.constant(dtype, 1)});
}

// Runs `body` if the number is a multiple of stride, with the quotient.
void at_multiples(Builder& build, Value* number, Value* stride,
                  const std::function<void(Builder&, Value*)>& body) {
  Value* place = build.emit("floordiv", {number, stride});
  Value* runs = build.emit("eq", {build.emit("mul", {place, stride}), number});
  auto then = std::make_unique<Block>(), otherwise = std::make_unique<Block>();
  for (Block* block : {then.get(), otherwise.get()}) {
    Builder inside(build.function(), *block);
    inside.location = build.location;
    if (block == then.get()) body(inside, place);
    inside.create(primitive("yield"), {});
  }
  build.insert_if(runs, std::move(then), std::move(otherwise));
}

}  // namespace

// Finds the carried values that adjoints are computed from, and those from which a later iteration is.
void Backward::find_used(Loop& loop) {
  std::vector<Value*> roots;
  for (Value* value : loop.results)
    if (value) roots.push_back(value);
  for (Value* value : loop.body.captured) roots.push_back(loop.body.frame.parts.at(value));
  const auto find = [&](std::vector<bool>& found) {
    const Liveness live(*loop.body.block, roots);
    for (size_t k = 0; k < loop.before.size(); ++k) found[k] = live.live(loop.before[k]);
  };
  loop.used.assign(loop.before.size(), false);
  find(loop.used);
  loop.needed = loop.used;
  for (std::vector<bool> before; before != loop.needed;) {
    before = loop.needed;
    for (size_t k = 0; k < loop.before.size(); ++k)
      if (before[k]) roots.push_back(loop.body.yields[k]);
    find(loop.needed);
  }
}

Keeping Backward::keeping_of(const Loop& loop) const {
  const bool any = std::find(loop.used.begin(), loop.used.end(), true) != loop.used.end();
  return any ? keeping_.at(loop_origin_.at(&loop.op)) : Keeping::all;
}

// An array for carried value k.
Value* Backward::add_scratch(const Loop& loop, size_t k, bool in_segment) {
  const Type& type = loop.before[k]->type;
  const Shape shape = kept_shape(type);
  Value* array = function_.add_argument(
      function_.body(), Type::array(type.dtype, static_cast<int>(shape.size()) + 2), loop.op.location);
  const Op* origin = loop_origin_.at(&loop.op);
  derived_.scratch.push_back(
      {function_.body().arguments.size() - 1, type.dtype, shape, origin, keeping_.at(origin), in_segment});
  return array;
}

void Backward::replace_before(Loop& loop, const ValueMap& kept) {
  replace_uses(*loop.body.block, kept);
  for (Value*& value : loop.results) replace(value, kept);
  for (auto& [value, part] : loop.body.frame.parts) replace(part, kept);
}

// Lets the body run in turns of which the first is the last iteration. Returns the bounds of the turns.
std::vector<Value*> Backward::turn_back(Loop& loop, Value* turn) {
  const DType dtype = loop.index->type.dtype;
  Value *low = loop.op.operands[0], *high = loop.op.operands[1], *step = loop.op.operands[2];
  Value* count = build_.emit("cdiv", {build_.emit("sub", {high, low}), step});
  const std::vector<Value*> bounds{build_.constant(dtype, 0), count, build_.constant(dtype, 1)};
  build_.at(*loop.body.block, 0);
  Value* last = build_.emit("sub", {count, build_.constant(dtype, 1)});
  Value* iteration = build_.emit("sub", {last, turn});
  Value* index = build_.emit("add", {low, build_.emit("mul", {iteration, step})});
  replace_uses(*loop.body.block, {{loop.index, index}});
  keep_trajectories(loop, iteration);
  return bounds;
}

// Stores the carried values that are used at the beginning of each iteration of the kernel's loop, and loads
// them in the adjoint loop.
void Backward::keep_trajectories(Loop& loop, Value* iteration) {
  Block& body = loop.op.region();
  Builder store(function_, body), load(function_, *loop.body.block);
  store.location = load.location = loop.op.location;
  store.at(body, 0);
  load.at(*loop.body.block, build_.position());
  Value* count = nullptr;
  ValueMap kept;
  for (size_t k = 0; k < loop.before.size(); ++k) {
    if (!loop.used[k]) continue;
    Value* array = add_scratch(loop, k, false);
    if (!count)
      count = store.emit("floordiv",
                         {store.emit("sub", {body.arguments[0], loop.op.operands[0]}), loop.op.operands[2]});
    store_tile(store, array, count, body.arguments[1 + k]);
    kept[loop.before[k]] = load_tile(load, array, iteration, loop.before[k]->type);
  }
  replace_before(loop, kept);
}

// Emits a loop that computes `count` iterations again, from number `first` on. initial: of the carried values
// that are needed. Returns them after the last of the iterations.
std::vector<Value*> Backward::run_again(const Loop& loop, Builder& build, Value* first, Value* count,
                                        const std::vector<Value*>& initial, const AtIteration& at) {
  const Block& region = loop.op.region();
  const DType dtype = loop.index->type.dtype;
  auto block = std::make_unique<Block>();
  Builder inside(function_, *block);
  inside.location = build.location;
  const auto argument = [&](const Type& type) {
    return function_.add_argument(*block, type, loop.op.location);
  };
  ValueMap map;
  Value* turn = argument(loop.index->type);
  std::vector<Value*> carried(loop.before.size()), yields;
  for (size_t k = 0; k < carried.size(); ++k) {
    const Type& type = loop.before[k]->type;
    if (loop.needed[k]) carried[k] = argument(type);
    map[region.arguments[1 + k]] =
        carried[k] ? carried[k] : inside.splat(Constant::of(type.dtype, 0), type.shape);
  }
  Value* number = inside.emit("add", {first, turn});
  map[region.arguments[0]] =
      inside.emit("add", {loop.op.operands[0], inside.emit("mul", {number, loop.op.operands[2]})});
  if (at) at(inside, turn, carried);
  for (const auto& op : region.ops)
    if (!op->traits().terminator) inside.insert(clone(*op, function_, map));
  for (size_t k = 0; k < carried.size(); ++k) {
    if (!carried[k]) continue;
    yields.push_back(region.terminator()->operands[k]);
    replace(yields.back(), map);
  }
  inside.create(primitive("yield"), yields);
  remove_forward_effects(*block);
  const std::vector<Value*> bounds{build.constant(dtype, 0), count, build.constant(dtype, 1)};
  return build.insert_for(bounds, initial, std::move(block)).results;
}

// The kernel's loop keeps the values that are needed at the beginning of each segment. The segments follow in
// the reverse order: each is computed again from these, and its values are kept until its adjoints are done.
// A segment of a loop without a bound may have more iterations than places; then those between two places are
// computed again in each turn.
Backward::Segments Backward::open_segments(Loop& loop, Value* turn) {
  Op& op = loop.op;
  const DType dtype = loop.index->type.dtype;
  const bool bounded = keeping_.at(loop_origin_.at(&op)) == Keeping::segments;
  const std::vector<bool>& in_segment = bounded ? loop.used : loop.needed;
  std::vector<Value*> firsts(loop.before.size()), inner(loop.before.size());
  Value *any_first = nullptr, *any_inner = nullptr;
  for (size_t k = 0; k < loop.before.size(); ++k) {
    if (loop.needed[k]) any_first = firsts[k] = add_scratch(loop, k, false);
    if (in_segment[k]) any_inner = inner[k] = add_scratch(loop, k, true);
  }
  const Type& index = loop.index->type;
  const auto number = [&](Builder& build, int64_t value) { return build.constant(dtype, value); };
  const auto locate = [&](Builder build) {
    build.location = op.location;
    return build;
  };

  Builder before = locate(Builder(function_, *op.parent));
  size_t position = 0;
  while (op.parent->ops[position].get() != &op) ++position;
  before.at(*op.parent, position);
  Value *low = op.operands[0], *step = op.operands[2];
  Value* count = before.emit("cdiv", {before.emit("sub", {op.operands[1], low}), step});
  Value* stride = stride_of(before, count, any_first);

  Segments made{std::make_unique<Block>(), nullptr, {}, {}};
  Value* segments = build_.emit("cdiv", {count, stride});
  Value* inner_stride = bounded ? nullptr : stride_of(build_, stride, any_inner);
  made.bounds = {number(build_, 0), segments, number(build_, 1)};
  made.turn = function_.add_argument(*made.block, index, op.location);
  Builder segment = locate(Builder(function_, *made.block));
  Value* which = segment.emit("sub", {segment.emit("sub", {segments, number(segment, 1)}), made.turn});
  Value* first = segment.emit("mul", {which, stride});
  Value* length = segment.emit("minimum", {stride, segment.emit("sub", {count, first})});
  std::vector<Value*> initial;
  for (size_t k = 0; k < firsts.size(); ++k)
    if (firsts[k]) initial.push_back(load_tile(segment, firsts[k], which, loop.before[k]->type));
  run_again(loop, segment, first, length, initial,
            [&](Builder& build, Value* place, const std::vector<Value*>& carried) {
              const auto keep = [&](Builder& at, Value* where) {
                for (size_t k = 0; k < inner.size(); ++k)
                  if (inner[k]) store_tile(at, inner[k], where, carried[k]);
              };
              if (bounded)
                keep(build, place);
              else
                at_multiples(build, place, inner_stride, keep);
            });
  made.inner_bounds = {number(segment, 0), length, number(segment, 1)};

  Builder load = locate(Builder(function_, *loop.body.block));
  load.at(*loop.body.block, 0);
  Value* place = load.emit("sub", {load.emit("sub", {length, number(load, 1)}), turn});
  Value* at = load.emit("add", {low, load.emit("mul", {load.emit("add", {first, place}), step})});
  ValueMap kept{{loop.index, at}};
  Value* where = bounded ? place : load.emit("floordiv", {place, inner_stride});
  std::vector<Value*> values;
  for (size_t k = 0; k < inner.size(); ++k)
    if (inner[k]) values.push_back(load_tile(load, inner[k], where, loop.before[k]->type));
  if (!bounded) {
    Value* from = load.emit("mul", {where, inner_stride});
    values = run_again(loop, load, load.emit("add", {first, from}), load.emit("sub", {place, from}), values,
                       nullptr);
  }
  for (size_t k = 0, next = 0; k < inner.size(); ++k)
    if (inner[k]) kept[loop.before[k]] = values[next++];
  replace_before(loop, kept);

  // Only now, because iterations that are computed again do not store these.
  Builder store = locate(Builder(function_, op.region()));
  store.at(op.region(), 0);
  Value* own = store.emit("floordiv", {store.emit("sub", {op.region().arguments[0], low}), step});
  at_multiples(store, own, stride, [&](Builder& build, Value* place) {
    for (size_t k = 0; k < firsts.size(); ++k)
      if (firsts[k]) store_tile(build, firsts[k], place, op.region().arguments[1 + k]);
  });
  return made;
}

std::vector<Value*> Backward::close_segments(Loop& loop, Segments& segments,
                                             const std::vector<Value*>& initial) {
  Builder inside(function_, *segments.block);
  inside.location = loop.op.location;
  std::vector<Value*> carried;
  for (const Value* value : initial)
    carried.push_back(function_.add_argument(*segments.block, value->type, loop.op.location));
  inside.create(primitive("yield"),
                inside.insert_for(segments.inner_bounds, carried, std::move(loop.body.block)).results);
  return build_.insert_for(segments.bounds, initial, std::move(segments.block)).results;
}

}  // namespace tile
