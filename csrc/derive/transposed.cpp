// Builds transposed kernels from a derived kernel.
#include "derive/transposed.h"

#include <algorithm>
#include <set>

#include "derive/coarsening.h"
#include "derive/divided.h"
#include "derive/recomputed.h"
#include "derive/remainder.h"
#include "derive/transposed_products.h"
#include "derive/work.h"
#include "ir/adjoints.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

constexpr int64_t most_width = 4, most_parts = 2;
constexpr int64_t most_beside_others = 128;   // rows or columns of a product that is not the only one
constexpr int64_t most_elements = 128 * 256;  // of the results of a block's products

// The addition of one gradient: a store inside the loop.
struct Addition {
  const DerivedGradient* gradient;
  const Op* store;
  Op* loop;
  int axis;
  bool adds;
};

bool is_zero(const Value* value) {
  const auto constant = constant_of(value);
  return constant && constant->floating == 0;
}

// A transposed kernel is not differentiated.
void remove_detached(Function& function) {
  ValueMap replaced;
  walk(function.body(), [&](const Op& op) {
    if (op.is("detach")) replaced[op.result()] = op.operands[0];
  });
  replace_uses(function.body(), replaced);
}

// Builds one kernel, for additions in one loop to what blocks along one axis share.
class Transposer {
 public:
  // wider: so many iterations of the loop are one block.
  Transposer(const Function& from, std::vector<Addition> additions, KeptTiles& kept, int64_t wider = 1)
      : from_(from),
        additions_(std::move(additions)),
        loop_(*additions_[0].loop),
        axis_(additions_[0].axis),
        coarsening_(loop_, wider),
        kept_(kept),
        again_(from, &loop_, axis_),
        function_(from.name() + "_transposed"),
        outside_(function_, function_.body()),
        inside_(function_, *region_) {
    function_.attributes() = from.attributes();
  }

  TransposedKernel run() {
    for (Value* parameter : from_.body().arguments)
      map_[parameter] = function_.add_argument(function_.body(), parameter->type, {});
    for (int axis = 0; axis < 3; ++axis)
      counts_.push_back(function_.add_argument(function_.body(), Type::tile(DType::i32), {}));
    outside_.location = inside_.location = loop_.location;
    other_block_ = function_.add_argument(*region_, Type::tile(DType::i32), {});
    if (again_.depends(loop_.operands[0]) || again_.depends(loop_.operands[2]))
      refuse("the loop's first iteration, or its step, depends on the block");
    Value *low = of(loop_.operands[0]), *step = of(loop_.operands[2]);
    Value* index = outside_.emit("bid", {}, {{"axis", int64_t{axis_}}});
    index = outside_.astype(index, low->type.dtype);
    if (!is_integer(loop_.operands[2], 1)) index = outside_.emit("mul", {index, step});
    if (!is_integer(loop_.operands[0], 0)) index = outside_.emit("add", {low, index});
    map_[loop_.region().arguments[0]] = index;
    if (coarsening_.factor() > 1) check_wider();
    for (const Addition& each : additions_)
      for (size_t i = 2; i < each.store->operands.size(); ++i) {
        if (again_.depends(each.store->operands[i])) refuse("the elements' indices depend on the block");
        of(each.store->operands[i]);
      }
    Value* count = counts_[static_cast<size_t>(axis_)];
    if (bounds_use(loop_, [](const Op& op) { return op.traits().reads; }))
      refuse("the loop's bounds are loaded");
    // The launch has blocks for the most iterations of all blocks.
    if (again_.depends(loop_.operands[1])) {
      runs_ = inside_.emit("lt", {index, of(loop_.operands[1])});
    } else if (bounds_use(loop_, [](const Op& op) { return op.is("bid"); })) {
      Value* runs = outside_.emit("lt", {index, of(loop_.operands[1])});
      count = outside_.emit("where", {runs, count, outside_.constant(DType::i32, 0)});
    }
    add_up(count);
    remove_detached(function_);
    for (const char* pass : {"fold", "simplify", "simplify_control", "cse", "licm", "dce"})
      run_pass(pass, function_);
    verify(function_, "transpose");
    transpose_products(function_);
    TransposedKernel made(std::move(function_));
    made.axis = axis_;
    walk(made.function.body(), [&](const Op& op) {
      // The derived kernel has no more the products that are added up here.
      if (!op.is("mma") || !op.operands[2]->definition || op.operands[2]->definition->is("mma")) return;
      const double each =
          2 * elements_of(op.type(0).shape) * static_cast<double>(op.operands[1]->type.shape.back());
      (is_narrow(op.type(0).dtype) ? made.narrow_flops : made.other_flops) += each;
    });
    made.kept = used_;
    return made;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    fail(loop_, ErrorKind::unsupported, "cannot be transposed: ", why);
  }

  // Returns the value in the new kernel.
  Value* of(Value* value) {
    if (const auto at = map_.find(value); at != map_.end()) return at->second;
    Op* op = value->definition;
    if (!op) refuse("an addition needs a value that the loop carries");
    if (again_.keeps(value)) return map_[value] = load_kept(value);
    const bool own = op->has("axis") && op->integer("axis") == axis_;
    if (op->is("bid") && own) return map_[value] = other_block_;
    if (op->is("num_blocks") && own) return map_[value] = counts_[static_cast<size_t>(axis_)];
    if (const std::string why = again_.why_not(*op); !why.empty()) refuse(why);
    Builder& build = again_.depends(value) ? inside_ : outside_;
    if (const Ramp* ramp = coarsening_.ramp(value)) return map_[value] = wider_ramp(build, *value, *ramp);
    for (Value* operand : free_values(*op)) of(operand);
    if (op->results.size() == 1 && coarsening_.grows(value)) return map_[value] = wider_copy(build, *op);
    if (coarsening_.factor() > 1 && coarsening_.axis(value) < -1) refuse("an operand has no wider form");
    replace_blocks(build.insert(clone(*op, function_, map_)));
    return map_.at(value);
  }

  Value* wider_ramp(Builder& build, const Value& value, const Ramp& ramp) {
    const DType dtype = value.type.dtype;
    const Shape shape = coarsening_.shape(&value);
    const auto add = [&](Value* sum, Value* part) {
      part = build.astype(part, dtype);
      return sum ? build.emit("add", {sum, part}) : part;
    };
    const int64_t extent = ramp.extent * coarsening_.factor();
    Value* index = add(nullptr, map_.at(loop_.region().arguments[0]));
    Value* start = build.emit("mul", {index, build.constant(dtype, extent)});
    start = add(start, build.constant(dtype, ramp.constant));
    for (Value* each : ramp.scalars) start = add(start, of(each));
    Value* line = build.emit("arange", {}, {{"dtype", dtype}, {"size", extent}});
    Shape lines(shape.size(), 1);
    lines[static_cast<size_t>(ramp.axis)] = extent;
    line = build.broadcast(build.emit("reshape", {line}, {{"shape", lines}}), shape);
    return build.emit("add", {line, build.broadcast(start, shape)});
  }
  Value* wider_copy(Builder& build, const Op& op) {
    std::vector<Value*> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) operands.push_back(wider_operand(build, op, i));
    return build.emit(*op.primitive, std::move(operands), coarsening_.attributes(op));
  }
  // An operand of an op that grows. One that does not grow itself is a broadcast of what all iterations
  // share.
  Value* wider_operand(Builder& build, const Op& op, size_t i) {
    Value* operand = op.operands[i];
    const bool matches = op.traits().elementwise || (op.is("mma") && i == 2);
    if (!matches || operand->type.shape.empty() || coarsening_.grows(operand)) return of(operand);
    const Shape shape = coarsening_.shape(op.result());
    const Op* broadcast = operand->definition;
    if (const auto constant = constant_of(operand)) return build.splat(*constant, shape);
    if (!broadcast || !broadcast->is("broadcast")) refuse("an operand has no wider form");
    const Shape& from = broadcast->type(0).shape;
    if (!from.empty() && from[static_cast<size_t>(coarsening_.axis(op.result()))] != 1)
      refuse("an operand has no wider form");
    return build.broadcast(of(broadcast->operands[0]), shape);
  }

  // Regions of a copied op may ask for the block, too.
  void replace_blocks(Op& op) {
    for (const auto& region : op.regions) {
      ValueMap replaced;
      walk(*region, [&](const Op& each) {
        if (!each.has("axis") || each.integer("axis") != axis_) return;
        if (each.is("bid")) replaced[each.result()] = other_block_;
        if (each.is("num_blocks")) replaced[each.result()] = counts_[static_cast<size_t>(axis_)];
      });
      replace_uses(*region, replaced);
    }
  }

  Value* block_number() {
    return tile::block_number(
        inside_,
        [&](int64_t axis) {
          return axis == axis_ ? other_block_ : inside_.emit("bid", {}, {{"axis", axis}});
        },
        [&](int64_t axis) { return counts_[static_cast<size_t>(axis)]; });
  }

  Value* load_kept(Value* value) {
    const size_t number = kept_.number_of(value);
    used_.push_back(number);
    while (arrays_.size() <= number) {
      const Type& type = kept_.array_type(arrays_.size());
      arrays_.push_back(function_.add_argument(function_.body(), type, {}));
    }
    return kept_.load(inside_, arrays_[number], number, block_number());
  }

  static bool is_integer(const Value* value, int64_t number) {
    const auto constant = constant_of(value);
    return constant && constant->integer == number;
  }
  // Blocks of several iterations begin where the array begins.
  void check_wider() {
    if (!is_integer(loop_.operands[0], 0) || !is_integer(loop_.operands[2], 1))
      refuse("its iterations are not neighbours");
    if (bounds_use(loop_, [](const Op& op) { return op.is("bid"); })) refuse("blocks differ in iterations");
    for (const Addition& each : additions_) {
      const int along = coarsening_.axis_of_access(*each.store);
      if (along < 0 || coarsening_.axis(each.store->operands[1]) != along)
        refuse("its iterations are not neighbours");
    }
  }

  // The ops from what is added up to what is stored, the last one first; they may follow the sum.
  std::vector<const Op*> ops_after_sum(const Op& store) const {
    std::vector<const Op*> ops;
    for (const Op* op = store.operands[1]->definition; op; op = op->operands[0]->definition) {
      const bool widens = op->is("astype") && is_floating(op->type(0).dtype) &&
                          adjoint_dtype(op->type(0).dtype) == op->type(0).dtype;
      if (op->parent != &loop_.region() || !(op->is("reshape") || op->is("permute") || widens)) break;
      ops.push_back(op);
    }
    return ops;
  }

  // A product that is stored with its axes exchanged is computed in this way if its right operand is
  // computed: tensor cores read that one from shared memory, and the left one from registers.
  bool is_transposed(const std::vector<const Op*>& chain) const {
    if (chain.empty() || !exchanges_axes(*chain.back())) return false;
    const Op* product = chain.back()->operands[0]->definition;
    return product->is("mma") && product->parent == &loop_.region() && is_zero(product->operands[2]) &&
           !is_loaded_tile(product->operands[1]);
  }
  Value* transposed_sum(Value* sum, const Op& product) {
    const auto transposed = [&](Value* operand) {
      return inside_.emit("permute", {of(operand)}, {{"axes", Shape{1, 0}}});
    };
    return inside_.emit("mma", {transposed(product.operands[1]), transposed(product.operands[0]), sum});
  }

  // Returns sum + value; products accumulate onto the sum.
  Value* sum_of(Value* sum, Value* value) {
    const Op* op = value->definition;
    const bool product = op && op->is("mma") && op->type(2).dtype == sum->type.dtype &&
                         again_.depends(value) && op->parent == &loop_.region();
    if (!product) {
      return inside_.emit("add", {sum, inside_.astype(of(value), sum->type.dtype)});
    }
    Value* start = is_zero(op->operands[2]) ? sum : sum_of(sum, op->operands[2]);
    if (!is_zero(op->operands[2]) && coarsening_.grows(value) && !coarsening_.grows(op->operands[2]))
      refuse("an operand has no wider form");
    return inside_.emit("mma", {of(op->operands[0]), of(op->operands[1]), start});
  }

  void add_up(Value* count) {
    std::vector<Value*> initial, arguments, sums, results;
    std::vector<std::vector<const Op*>> chains;
    Value *first = outside_.constant(DType::i32, 0), *step = outside_.constant(DType::i32, 1);
    for (const Addition& each : additions_) {
      chains.push_back(ops_after_sum(*each.store));
      Value* added = chains.back().empty() ? each.store->operands[1] : chains.back().back()->operands[0];
      Type type = Type::tile(adjoint_dtype(added->type.dtype), coarsening_.shape(added));
      if (is_transposed(chains.back())) std::reverse(type.shape.begin(), type.shape.end());
      initial.push_back(outside_.splat(Constant::of(type.dtype, 0), type.shape));
      arguments.push_back(function_.add_argument(*region_, type, {}));
      sums.push_back(added);
    }
    auto runs = std::make_unique<Block>(), skips = std::make_unique<Block>();
    if (runs_) inside_.to_end(*runs);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!is_transposed(chains[i])) {
        results.push_back(sum_of(arguments[i], sums[i]));
        continue;
      }
      results.push_back(transposed_sum(arguments[i], *sums[i]->definition));
      chains[i].pop_back();
    }
    if (runs_) {
      inside_.create(primitive("yield"), results);
      inside_.to_end(*skips);
      inside_.create(primitive("yield"), arguments);
      inside_.to_end(*region_);
      results = inside_.insert_if(runs_, std::move(runs), std::move(skips)).results;
    }
    inside_.create(primitive("yield"), results);
    const std::vector<Value*> made =
        outside_.insert_for({first, count, step}, initial, std::move(region_)).results;
    for (size_t i = 0; i < made.size(); ++i) store(additions_[i], chains[i], made[i]);
  }

  void store(const Addition& addition, const std::vector<const Op*>& chain, Value* sum) {
    for (size_t i = chain.size(); i-- > 0;)
      sum = outside_.emit(*chain[i]->primitive, {sum}, coarsening_.attributes(*chain[i]));
    const Op& from = *addition.store;
    const DType dtype = addition.gradient->dtype;
    std::vector<Value*> operands{of(from.operands[0])};
    for (size_t i = 2; i < from.operands.size(); ++i) operands.push_back(of(from.operands[i]));
    if (addition.adds) {
      Attributes attributes = coarsening_.attributes(from);
      attributes.set("shape", sum->type.shape);
      attributes.set("pad", Constant::of(dtype, 0).attribute());
      sum = outside_.emit("add", {outside_.emit("load", operands, std::move(attributes)), sum});
    }
    operands.insert(operands.begin() + 1, outside_.astype(sum, dtype));
    outside_.create(primitive("store"), std::move(operands), coarsening_.attributes(from));
  }

  const Function& from_;
  const std::vector<Addition> additions_;
  Op& loop_;
  const int axis_;
  Coarsening coarsening_;
  KeptTiles& kept_;
  Recomputed again_;
  Function function_;
  std::unique_ptr<Block> region_ = std::make_unique<Block>();
  Builder outside_, inside_;
  ValueMap map_;
  std::vector<Value*> counts_, arrays_;
  std::vector<size_t> used_;
  Value *other_block_ = nullptr, *runs_ = nullptr;  // runs: the block has this iteration; null: all have
};

struct Products {
  int64_t count = 0, elements = 0;  // of all results
  int64_t longest = 0;              // axis of one
};
Products products_of(const Function& function) {
  Products all;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma")) return;
    ++all.count;
    int64_t own = 1;
    for (const int64_t extent : op.result()->type.shape)
      own *= extent, all.longest = std::max(all.longest, extent);
    all.elements += own;
  });
  return all;
}

// A block computes as wide tiles as registers hold: the wider, the fewer bytes are loaded for each product.
// Its iterations are divided for that. Returns false if registers do not hold its tiles.
bool divide(Function& function) {
  for (int64_t parts = 2; products_of(function).elements > most_elements && parts <= most_parts; parts *= 2)
    if (!divide_iterations(function, 2)) break;
  return products_of(function).elements <= most_elements;
}
TransposedKernel with_wide_tiles(const Function& function, const std::vector<Addition>& group,
                                 KeptTiles& kept) {
  TransposedKernel made = Transposer(function, group, kept).run();
  divide(made.function);
  const int64_t count = products_of(made.function).count;
  if (count == 0) return made;
  const bool alone = count == static_cast<int64_t>(group.size());
  for (int64_t width = 2; width <= most_width; width *= 2) {
    try {
      Function wide = std::move(Transposer(function, group, kept, width).run().function);
      if (!divide(wide) || (!alone && products_of(wide).longest > most_beside_others)) break;
      made.wide = std::move(wide);
      made.width = width;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      break;
    }
  }
  return made;
}

// Finds the additions of owned gradients; an addition that is in no loop has a text in `why`.
std::vector<Addition> additions_of(const Derived& derived, const std::vector<Wanted>& wanted,
                                   std::vector<std::string>& why) {
  const Block& body = derived.function.body();
  std::vector<Addition> list;
  for (size_t i = 0; i < derived.gradients.size(); ++i) {
    const DerivedGradient& gradient = derived.gradients[i];
    if (gradient.how != DerivedGradient::owned) continue;
    std::vector<const Op*> stores;
    walk(body, [&](const Op& op) {
      if (op.traits().writes && root_array(op.operands[0]) == body.arguments[gradient.position])
        stores.push_back(&op);
    });
    if (stores.empty()) continue;  // results do not depend on the array
    const Op* loop = stores[0]->parent->parent;
    if (stores.size() != 1 || !stores[0]->is("store") || !loop || !loop->is("for") || loop->parent != &body)
      why[i] = "it is not added to in one loop";
    else
      list.push_back({&gradient, stores[0], const_cast<Op*>(loop), gradient.axes.at(0), wanted[i].adds});
  }
  return list;
}

// Stores what other kernels load.
void store_kept(Derived& derived, const KeptTiles& kept, const std::set<size_t>& stored) {
  Function& function = derived.function;
  Block& body = function.body();
  derived.counts = body.arguments.size();
  for (int axis = 0; axis < 3; ++axis) function.add_argument(body, Type::tile(DType::i32), {});
  for (size_t number = 0; number < kept.size(); ++number) {
    Value *array = function.add_argument(body, kept.array_type(number), {}), *value = kept.value(number);
    derived.kept.push_back({body.arguments.size() - 1, value->type.dtype, kept.shape(number), nullptr});
    if (stored.contains(number)) continue;
    size_t at = 0;
    while (body.ops[at].get() != value->definition) ++at;
    Builder build(function, body);
    build.location = value->definition->location;
    build.at(body, at + 1);
    kept.store(build, array, number, block_number(build), value);
  }
  for (const char* pass : {"cse", "dce"}) run_pass(pass, function);
  verify(function, "transpose");
}

}  // namespace

std::vector<std::string> transpose_owned(Derived& derived, const std::vector<Wanted>& wanted) {
  std::vector<std::string> why(derived.gradients.size());
  if (std::none_of(derived.gradients.begin(), derived.gradients.end(),
                   [](const DerivedGradient& each) { return each.how == DerivedGradient::owned; }))
    return why;
  for (const char* pass : {"fold", "simplify", "simplify_control", "cse", "licm", "dce"})
    run_pass(pass, derived.function);
  const std::vector<Addition> additions = additions_of(derived, wanted, why);
  const auto reason = [&](const Addition& each) -> std::string& {
    return why[static_cast<size_t>(each.gradient - derived.gradients.data())];
  };
  for (const Addition& each : additions) {  // tried alone, so that others are not refused
    KeptTiles kept(derived.function);
    try {
      const TransposedKernel alone = Transposer(derived.function, {each}, kept).run();
      const Op* store = nullptr;
      walk(alone.function.body(), [&](const Op& op) { store = op.traits().writes ? &op : store; });
      const Reach reach = reach_of(alone.function, {store});
      const bool apart = std::none_of(reach.shared.begin(), reach.shared.end(), [&](int axis) {
        const auto& axes = derived.grid_axes;  // along others there is one block
        return std::find(axes.begin(), axes.end(), axis) != axes.end();
      });
      if (!apart || !reach.once)
        reason(each) = "blocks of a kernel that loops over them would share elements";
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      reason(each) = error.what();
    }
  }
  if (std::any_of(why.begin(), why.end(), [](const std::string& text) { return !text.empty(); })) return why;
  if (additions.empty()) return why;
  derived.whole = std::make_shared<Function>(clone(derived.function));
  KeptTiles kept(derived.function);
  std::vector<std::vector<Addition>> groups;
  for (const Addition& each : additions) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) {
      return other[0].loop == each.loop && other[0].axis == each.axis;
    });
    if (group == groups.end())
      groups.push_back({each});
    else
      group->push_back(each);
  }
  for (const std::vector<Addition>& group : groups) {
    TransposedKernel made = with_wide_tiles(derived.function, group, kept);
    const auto& ops = derived.function.body().ops;
    const auto at =
        std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return op.get() == group[0].loop; });
    made.loop = derived.whole->body().ops[static_cast<size_t>(at - ops.begin())].get();
    for (const Addition& each : group)
      made.gradients.push_back(static_cast<size_t>(each.gradient - derived.gradients.data()));
    derived.transposed.push_back(std::move(made));
  }
  for (const Addition& each : additions) {
    Block& region = each.loop->region();
    std::erase_if(region.ops, [&](const std::unique_ptr<Op>& op) { return op.get() == each.store; });
  }
  std::set<size_t> stored;  // by the remainder
  derived.remainder = take_remainder(derived.function, derived.gradients, kept, stored);
  const size_t first = derived.function.body().arguments.size() + 3;
  const auto add_kept = [&](Function& function) {
    for (size_t i = function.body().arguments.size(); i < first + kept.size(); ++i)
      function.add_argument(function.body(), kept.array_type(i - first), {});
  };
  if (derived.remainder) add_kept(*derived.remainder);
  for (TransposedKernel& each : derived.transposed) {
    add_kept(each.function);
    if (each.wide) add_kept(*each.wide);
    const Block& body = each.function.body();
    for (const size_t number : each.gradients) {
      DerivedGradient& gradient = derived.gradients[number];
      walk(body, [&](const Op& op) {
        if (op.traits().writes && root_array(op.operands[0]) == body.arguments[gradient.position])
          gradient.covers = cover_of(op);
      });
    }
  }
  store_kept(derived, kept, stored);
  return why;
}

bool may_be_wide(const Derived& derived, const TransposedKernel& transposed, int64_t iterations,
                 const std::function<int64_t(size_t gradient, size_t axis)>& extent) {
  if (!transposed.wide) return false;
  if (iterations % transposed.width == 0) return true;
  return std::all_of(transposed.gradients.begin(), transposed.gradients.end(), [&](size_t gradient) {
    const std::vector<Cover>& covers = derived.gradients[gradient].covers;
    for (size_t axis = 0; axis < covers.size(); ++axis)
      if (covers[axis].grid_axis == transposed.axis)
        return iterations * covers[axis].extent >= extent(gradient, axis);
    return false;
  });
}

}  // namespace tile
