// Builds the regions of producer and groups.
#include "cuda/async/roles.h"

#include <algorithm>
#include <array>

#include "cuda/async/issue.h"
#include "cuda/async/ops.h"
#include "cuda/async/pairs.h"
#include "cuda/staging.h"
#include "ir/build.h"
#include "ir/unused.h"
#include "ir/walk.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

class Divider {
 public:
  Divider(Function& function, const AsyncPlan& plan) : function_(function), arrays_(function), plan_(plan) {}

  std::optional<std::string> run() {
    std::vector<std::unique_ptr<Op>> all = std::exchange(function_.body().ops, {});
    const Location at = plan_.rings[0].uses[0].loads[0]->location;
    auto roles_op = std::make_unique<Op>();
    roles_op->primitive = &*roles;
    roles_op->location = at;
    for (int i = 0; i < 3; ++i) {
      roles_op->regions.push_back(std::make_unique<Block>());
      roles_op->regions.back()->parent = roles_op.get();
    }
    Block& groups = roles_op->region(2);
    bool acts = false;  // an op of the groups does
    for (auto& op : all) {
      const bool outside = (is_scalar_or_view(*op) || (!acts && may_leave(*op))) &&
                           std::none_of(op->operands.begin(), op->operands.end(),
                                        [&](const Value* operand) { return operand->owner == &groups; });
      acts = acts || (!outside && (op->traits().acts() || !op->regions.empty()));
      Block& to = outside ? function_.body() : groups;
      Builder(function_, to).insert(std::move(op));
    }
    Builder build(function_, groups);
    for (const bool of_epilogue : {false, true}) {
      Block& producer = roles_op->region(of_epilogue ? 1 : 0);
      of_epilogue_ = of_epilogue;
      copies_.clear();
      build.to_end(producer);
      produce(groups, build);
      end(build, producer);
      if (why_not_) return why_not_;
      remove_unused(producer);
    }
    if (plan_.awaits)
      issue_products(function_, plan_, groups);
    else
      consume(groups);
    read_loads(build);
    store_panels(groups, build);
    move_stores_outside(function_, groups);
    end(build, groups);
    remove_unused(groups);
    Builder(function_, function_.body()).insert(std::move(roles_op));
    return std::nullopt;
  }

 private:
  // Returns true for what every role may compute for itself.
  bool is_scalar_or_view(const Op& op) const {
    return op.regions.empty() && !op.results.empty() && !is_tile(op.results[0]) &&
           (op.traits().pure() || loads_scalar(op, arrays_));
  }
  // Returns true for what ends the kernel by a condition that is the same for all threads of a block: they
  // leave together, before they have different roles.
  static bool may_leave(const Op& op) {
    return op.is("leave_unless") || (op.is("assert") && op.type(0).is_scalar());
  }
  void end(Builder& build, Block& block) {
    build.to_end(block);
    build.create(primitive("yield"), {});
  }

  const AsyncRing* ring_of(const Op& loop) const {
    for (const AsyncRing& ring : plan_.rings)
      if (ring.loop == &loop) return &ring;
    return nullptr;
  }
  // Returns the use of one of the producer's rings whose last load the op is, or null.
  const RingUse* use_of(const Op& op) const {
    const auto [ring, use] = plan_.use_of(op);
    if (!use || use->last != &op) return nullptr;
    const AsyncRing::Kind kind = plan_.rings[static_cast<size_t>(ring)].kind;
    return (kind == AsyncRing::Kind::epilogue) == of_epilogue_ ? use : nullptr;
  }
  bool contains_ring(const Op& op) const {
    bool found = false;
    for (const auto& region : op.regions)
      walk(*region, [&](const Op& inner) { found = found || use_of(inner); });
    return found;
  }
  int64_t number_of(const AsyncRing& ring) const { return &ring - plan_.rings.data(); }

  // Returns the producer's copy of a value, or null if the producer has none.
  Value* known(Value* value) const {
    if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
    return value->owner == &function_.body() ? value : nullptr;
  }
  Value* needed(Value* value, const Op& by) {
    Value* copy = known(value);
    if (!copy && !why_not_)
      why_not_ =
          str(by.location, ": the addresses of its loads depend on values that are computed from tiles");
    return copy ? copy : value;
  }

  // Copies scalars, views and the loops around rings to the producer.
  void produce(const Block& from, Builder& build) {
    for (const auto& op : from.ops) {
      if (why_not_) return;
      build.location = op->location;
      const bool all_known = std::all_of(op->operands.begin(), op->operands.end(),
                                         [&](Value* operand) { return known(operand); });
      if (is_scalar_or_view(*op) && all_known) build.insert(clone(*op, function_, copies_));
      if (op->is("for") && contains_ring(*op)) produce_loop(*op, build);
      if (const RingUse* use = use_of(*op)) fill(*use, build);
    }
  }
  void produce_loop(const Op& loop, Builder& build) {
    auto made = std::make_unique<Op>();
    made->primitive = loop.primitive;
    made->location = loop.location;
    for (size_t i = 0; i < 3; ++i) made->operands.push_back(needed(loop.operands[i], loop));
    made->regions.push_back(std::make_unique<Block>());
    Block& body = made->region();
    body.parent = made.get();
    Value* index = loop.region().arguments[0];
    copies_[index] = function_.add_argument(body, index->type, index->location);
    Builder inside(function_, body);
    produce(loop.region(), inside);
    inside.location = loop.location;
    end(inside, body);
    build.insert(std::move(made));
  }
  void fill(const RingUse& use, Builder& build) {
    const int64_t number = plan_.use_of(*use.last).first;
    const AsyncRing& ring = plan_.rings[static_cast<size_t>(number)];
    build.location = use.loads[0]->location;
    build.create(ring_fill, {}, ring_attribute(number));
    for (size_t t = 0; t < use.loads.size(); ++t) {
      const RingTile& tile = ring.tiles[use.first_tile + t];
      const Op& load = *use.loads[t];
      build.location = load.location;
      Position at = position_of(tile, load, 1);
      for (Value*& index : at.indices) index = needed(index, load);
      at.indices.insert(at.indices.begin(), array_of(tile));
      Attributes attributes{
          {"ring", number}, {"steps", at.steps}, {"tile", static_cast<int64_t>(use.first_tile + t)}};
      if (tile.sliced >= 0) attributes.set("sliced", int64_t{tile.sliced});
      if (tile.shared) attributes.set("shared", int64_t{1});
      build.create(ring_load, std::move(at.indices), std::move(attributes));
    }
    build.create(ring_next, {}, ring_attribute(number));
  }

  Value* array_of(const CopiedTile& tile) const {
    return function_.body().arguments[static_cast<size_t>(tile.parameter)];
  }
  // An index and a step along each axis of the parameter, and where a slice begins and ends. The access's own
  // indices begin at operand `first`.
  struct Position {
    std::vector<Value*> indices;
    std::vector<int64_t> steps;
  };
  static Position position_of(const CopiedTile& tile, const Op& access, size_t first) {
    Position at;
    for (size_t axis = 0; axis < tile.axes.size(); ++axis) {
      const int of = tile.axes[axis];
      const auto own = static_cast<size_t>(std::max(of, 0));
      at.indices.push_back(of < 0 ? tile.fixed[axis] : access.operands[own + first]);
      at.steps.push_back(of < 0 ? 1 : access.integers("steps")[own]);
    }
    if (tile.sliced >= 0) at.indices.insert(at.indices.end(), {tile.start, tile.stop});
    return at;
  }

  // Rewrites the loops of rings in the groups' region.
  void consume(Block& block) {
    for (size_t i = 0; i < block.ops.size(); ++i) {
      Op& op = *block.ops[i];
      if (const AsyncRing* ring = ring_of(op)) {
        consume_iteration(*ring, op);
        i += start(block, i);
        i += await(*ring, block, i);
        continue;
      }
      for (const auto& region : op.regions) consume(*region);
    }
  }
  static size_t position_in(const Block& block, const Op& op) {
    const auto found = std::find_if(block.ops.begin(), block.ops.end(),
                                    [&](const auto& other) { return other.get() == &op; });
    return static_cast<size_t>(found - block.ops.begin());
  }
  // Replaces the loads of epilogues that a producer copies.
  void read_loads(Builder& build) {
    for (const AsyncRing& ring : plan_.rings) {
      if (ring.kind != AsyncRing::Kind::epilogue) continue;
      const int64_t number = number_of(ring);
      for (const RingUse& use : ring.uses) {
        const Op& load = *use.last;
        Value* loaded = load.results[0];
        Block& block = *load.parent;
        build.at(block, position_in(block, load));
        build.location = load.location;
        Value* read = read_stage(build, ring_read, number, loaded->type);
        replace_uses(block, {{loaded, read}});
        block.ops.erase(block.ops.begin() + static_cast<ptrdiff_t>(build.position()));
      }
    }
  }
  // Replaces the stores that go through panels.
  void store_panels(Block& groups, Builder& build) {
    for (size_t t = 0; t < plan_.stores.size(); ++t) {
      const PanelStore& store = plan_.stores[t];
      Block& block = *store.access->parent;
      const size_t position = position_in(block, *store.access);
      std::vector<Value*> operands = store.access->operands;
      Shape steps = store.access->integers("steps");
      if (!store.by_warps) {
        Position at = position_of(store, *store.access, 2);
        operands = std::move(at.indices);
        operands.insert(operands.begin(), {array_of(store), store.access->operands[1]});
        steps = at.steps;
      }
      build.at(block, position);
      build.location = store.access->location;
      Attributes attributes{{"steps", steps}, {"tile", static_cast<int64_t>(t)}};
      if (store.sliced >= 0 && !store.by_warps) attributes.set("sliced", int64_t{store.sliced});
      build.create(store.by_warps ? store_rows : store_async, std::move(operands), std::move(attributes));
      block.ops.erase(block.ops.begin() + static_cast<ptrdiff_t>(position) + 1);
    }
    build.to_end(groups);
    if (!plan_.stores.empty() && !plan_.stores[0].by_warps) build.create(store_wait, {});
  }
  void consume_iteration(const AsyncRing& ring, const Op& loop) {
    const int64_t number = number_of(ring);
    Block& body = loop.region();
    std::vector<std::unique_ptr<Op>> all = std::exchange(body.ops, {});
    Builder build(function_, body);
    build.location = ring.tiles[0].access->location;
    build.create(ring_wait, {}, ring_attribute(number));
    Value* add = build.emit("ne", {body.arguments[0], loop.operands[0]});
    ValueMap tiles;
    for (size_t t = 0; t < ring.tiles.size(); ++t) {
      const Op& load = *ring.tiles[t].access;
      const Type& type = load.results[0]->type;
      build.location = load.location;
      tiles[load.results[0]] = build.emit(ring_tile, {},
                                          {{"dtype", ring.tiles[t].dtype_of(type)},
                                           {"ring", number},
                                           {"shape", type.shape},
                                           {"tile", static_cast<int64_t>(t)}});
    }
    int64_t products = 0;
    Location last;
    ValueMap results;
    std::unique_ptr<Op> terminator = std::move(all.back());
    all.pop_back();
    for (auto& op : all) {
      if (op->is("load") || op->is("permute") || rounds_to_tf32(*op)) continue;
      if (!op->is("mma")) {
        op->parent = &body;
        body.ops.push_back(std::move(op));
        continue;
      }
      build.location = last = op->location;
      std::array<Value*, 2> read;
      std::array<int64_t, 2> transposed;
      for (size_t i = 0; i < 2; ++i) {
        const MmaOperand operand = mma_operand(op->operands[i]);
        read[i] = tiles.at(const_cast<Value*>(operand.value));
        transposed[i] = operand.transposed;
      }
      results[op->results[0]] =
          build.emit(mma_issue, {read[0], read[1], op->operands[2], add},
                     {{"left_transposed", transposed[0]}, {"right_transposed", transposed[1]}});
      ++products;
    }
    build.location = last;
    // The products of the iteration before have read their stage once only this iteration's are in flight.
    build.create(mma_retire, {}, {{"pending", products}});
    build.create(ring_free, {}, ring_attribute(number));
    build.create(ring_next, {}, ring_attribute(number));
    terminator->parent = &body;
    body.ops.push_back(std::move(terminator));
    replace_uses(body, results);
  }
  // Leaves the loop's sums undefined before its first iteration; returns how many ops were added.
  size_t start(Block& block, size_t position) {
    Op& loop = *block.ops[position];
    Builder build(function_, block);
    build.at(block, position);
    build.location = loop.location;
    size_t added = 0;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (!is_sum(loop, i)) continue;
      const Type& type = loop.results[i]->type;
      loop.operands[i + 3] = build.emit(undefined, {}, {{"dtype", type.dtype}, {"shape", type.shape}});
      ++added;
    }
    return added;
  }
  static bool is_sum(const Op& loop, size_t i) {
    const Op* made = loop.region().terminator()->operands[i]->definition;
    return made && made->is("mma_issue");
  }
  // Awaits the loop's sums behind it; returns how many ops were added.
  size_t await(const AsyncRing& ring, Block& block, size_t position) {
    const size_t before = block.ops.size();
    Op& loop = *block.ops[position];
    Builder build(function_, block);
    build.at(block, position + 1);
    build.location = loop.location;
    ValueMap awaited;
    for (size_t i = 0; i < loop.results.size(); ++i)
      if (is_sum(loop, i))
        awaited[loop.results[i]] = build.emit(mma_await, {loop.results[i]}, {{"pending", int64_t{0}}});
    build.create(ring_drain, {}, ring_attribute(number_of(ring)));
    Value* iterates = build.emit("lt", {loop.operands[0], loop.operands[1]});
    for (auto& [result, value] : awaited) value = build.emit(zero_unless, {iterates, value});
    // The awaited values replace the loop's results everywhere but in the ops that await them.
    for (size_t i = build.position(); i < block.ops.size(); ++i) {
      for (Value*& operand : block.ops[i]->operands)
        if (const auto found = awaited.find(operand); found != awaited.end()) operand = found->second;
      for (const auto& region : block.ops[i]->regions) replace_uses(*region, awaited);
    }
    return block.ops.size() - before;
  }

  Function& function_;
  const KernelArrays arrays_;
  const AsyncPlan& plan_;
  bool of_epilogue_ = false;  // the second producer is built
  ValueMap copies_;
  std::optional<std::string> why_not_;
};

}  // namespace

std::optional<std::string> divide_into_roles(Function& function, const AsyncPlan& plan) {
  return Divider(function, plan).run();
}

}  // namespace tile::cuda
