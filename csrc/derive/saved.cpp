// Compares the work of derived kernels that compute values again with that of those that load them.
#include "derive/saved.h"

#include <algorithm>
#include <limits>
#include <set>

#include "derive/recomputed.h"
#include "derive/work.h"
#include "ir/build.h"
#include "ir/verify.h"
#include "passes/passes.h"

namespace tile {
namespace {

double bytes_of(const Type& type) { return tile::bytes_of(type.dtype, type.shape); }

// Returns true for a tile of several rows and columns; a row of numbers takes little memory.
bool is_matrix(const Type& type) {
  return std::count_if(type.shape.begin(), type.shape.end(), [](int64_t extent) { return extent > 1; }) > 1;
}

// The work of a block, as bytes.
class Work {
 public:
  Work(const Function& function, const LaunchSizes& sizes, bool cpu)
      : function_(function), sizes_(sizes), cpu_(cpu) {}

  double of(const Block& block) const {
    double sum = 0;
    for (const auto& op : block.ops) sum += of(*op);
    return sum;
  }

 private:
  double of(const Op& op) const {
    if (!op.regions.empty()) {
      double inside = 0;
      for (const auto& region : op.regions) inside += of(*region);
      return inside * iterations(op);
    }
    const Traits& traits = op.traits();
    if (traits.writes) return op.operands.size() > 1 ? bytes_of(op.type(1)) : 0;
    if (op.results.empty() || op.result()->type.is_array() || constant_of(op.result())) return 0;
    const Type& made = op.result()->type;
    if (traits.reads) return bytes_of(made);
    if (op.is("mma")) {
      const double flops = 2 * elements_of(made.shape) * static_cast<double>(op.type(0).shape.back());
      return flops / flops_per_byte(cpu_, is_narrow(op.type(0).dtype));
    }
    if (made.shape.empty()) return 0;
    double elements = elements_of(made.shape);
    for (const Value* operand : op.operands)
      if (!operand->type.is_array()) elements = std::max(elements, elements_of(operand->type.shape));
    return elements / elements_per_byte;
  }
  // A number that is unknown is the same in both kernels.
  double iterations(const Op& op) const {
    if (!op.is("for")) return 1;
    return static_cast<double>(most_iterations(function_, op, sizes_).value_or(1));
  }
  const Function& function_;
  const LaunchSizes& sizes_;
  const bool cpu_;
};

bool has(const Op& op, bool (*which)(const Op& each)) {
  bool any = which(op);
  for (const auto& region : op.regions) walk(*region, [&](const Op& each) { any |= which(each); });
  return any;
}
bool is_product(const Op& op) { return op.is("mma"); }
bool is_reduction(const Op& op) {
  return op.name().starts_with("reduce") || op.is("cumsum") || op.is("cumprod");
}
bool reads(const Op& op) { return op.traits().reads; }

std::string text_of(const Op& op) {
  const char* kind = op.is("mma")          ? "a product"
                     : !op.is("for")       ? op.name().data()
                     : has(op, is_product) ? "a loop of products"
                                           : "a loop";
  return str(kind, " at ", op.location);
}

// bfloat16 has the range of float32, so that a rounded sum is finite if it was; float16 has not.
bool may_round(const Function& kernel, const Op& op, const std::vector<size_t>& results) {
  bool all = !results.empty() && has(op, is_product);
  for (const size_t each : results) all &= kernel.body().arguments[each]->type.dtype == DType::bf16;
  const auto check = [&](const Op& each) { all &= !each.is("mma") || is_narrow(each.type(0).dtype); };
  check(op);
  for (const auto& region : op.regions) walk(*region, check);
  return all;
}

std::vector<SavedCandidate> candidates(const Function& kernel, const std::vector<size_t>& results) {
  std::vector<SavedCandidate> list;
  const auto& ops = kernel.body().ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = *ops[i];
    const bool costs = op.is("mma") || is_reduction(op) ||
                       (op.is("for") && (has(op, is_product) || has(op, is_reduction) || has(op, reads)));
    if (!costs) continue;
    SavedCandidate made{i, {}, may_round(kernel, op, results)};
    for (size_t k = 0; k < op.results.size(); ++k) {
      const Type& type = op.results[k]->type;
      if (!type.is_array() && type.dtype != DType::boolean) made.results.push_back(k);
    }
    if (!made.results.empty()) list.push_back(std::move(made));
  }
  return list;
}

Function copy_of(const Function& kernel, std::string name) {
  Function made(std::move(name));
  made.attributes() = kernel.attributes();
  ValueMap copies;
  for (Value* parameter : kernel.body().arguments)
    copies[parameter] = made.add_argument(made.body(), parameter->type, parameter->location);
  Builder build(made, made.body());
  for (const auto& op : kernel.body().ops) build.insert(clone(*op, made, copies));
  return made;
}

SavingKernel with_stores(const Function& kernel, const std::vector<SavedCandidate>& list) {
  SavingKernel made{copy_of(kernel, kernel.name() + "_saving"), {}};
  Function& function = made.function;
  Block& body = function.body();
  const std::vector<int> axes = grid_axes(function);
  struct Store {
    Op* op;
    size_t result;
    bool rounds;
  };
  std::vector<Store> stores;
  for (const SavedCandidate& each : list)
    for (const size_t result : each.results)
      stores.push_back({body.ops[each.op].get(), result, each.may_round});
  for (const auto& [op, result, rounds] : stores) {
    Value* value = op->result(result);
    size_t at = 0;
    while (body.ops[at].get() != op) ++at;
    Builder build(function, body);
    build.location = op->location;
    build.at(body, at + 1);
    if (rounds && value->type.dtype == DType::f32 && is_matrix(value->type))
      value = build.emit("astype", {value}, {{"dtype", DType::bf16}});
    KeptTiles kept(function);
    const size_t number = kept.number_of(value);
    Value* array = function.add_argument(body, kept.array_type(number), op->location);
    kept.store(build, array, number, block_number(build, axes), value);
    made.tiles.push_back({body.arguments.size() - 1, value->type.dtype, kept.shape(number), text_of(*op)});
  }
  verify(function, "save");
  return made;
}

bool is_loaded(const Derived& derived, size_t position) {
  const Value* array = derived.function.body().arguments[position];
  bool any = false;
  walk(derived.function.body(),
       [&](const Op& op) { any |= op.traits().reads && root_array(op.operands[0]) == array; });
  return any;
}

// Returns true if a rounded tile enters elementwise operations only, so that no sum adds up its errors.
bool enters_elementwise(const Derived& derived, size_t position) {
  const Value* array = derived.function.body().arguments[position];
  std::set<const Value*> loaded;
  bool all = true;
  walk(derived.function.body(), [&](const Op& op) {
    if (op.traits().reads && root_array(op.operands[0]) == array) loaded.insert(op.result());
    for (const Value* operand : op.operands) {
      if (!loaded.contains(operand)) continue;
      if (op.is("astype") || op.is("reshape") || op.is("permute"))
        loaded.insert(op.result());
      else
        all &= op.traits().elementwise;
    }
  });
  return all;
}

}  // namespace

std::vector<size_t> positions_of(const std::vector<SavedTile>& tiles) {
  std::vector<size_t> list;
  for (const SavedTile& each : tiles) list.push_back(each.position);
  return list;
}

SavingKernels::SavingKernels(const Function& kernel, std::vector<size_t> inputs, std::vector<size_t> results)
    : kernel_(prepared(kernel)), inputs_(std::move(inputs)), results_(std::move(results)) {
  if (!inputs_.empty() && !results_.empty()) candidates_ = candidates(kernel_, results_);
}

SavingKernels::Way SavingKernels::made(const std::vector<SavedCandidate>& list) const {
  std::vector<Wanted> wanted;
  for (const size_t each : inputs_) wanted.push_back({each});
  SavingKernel saving = with_stores(kernel_, list);
  Derived derived = reverse(saving.function, wanted, results_, -1, {}, positions_of(saving.tiles));
  return {std::move(saving), std::move(derived)};
}

const SavingKernels::Way& SavingKernels::way(const std::vector<size_t>& chosen) {
  std::unique_ptr<const Way>& known = ways_[chosen];
  if (known) return *known;
  std::vector<SavedCandidate> list;
  for (const size_t each : chosen) list.push_back(candidates_[each]);
  Way made = this->made(list);
  bool again = false;
  size_t tile = 0;
  for (SavedCandidate& each : list) {
    std::vector<size_t> needed;
    for (const size_t result : each.results) {
      const SavedTile& of = made.kernel.tiles[tile++];
      if (is_loaded(made.derived, of.position)) needed.push_back(result);
      if (each.may_round && is_matrix(Type::tile(of.dtype, of.shape)) &&
          !enters_elementwise(made.derived, of.position))
        again = true, each.may_round = false;
    }
    again |= needed.size() != each.results.size();
    each.results = std::move(needed);
  }
  known = std::make_unique<const Way>(again ? this->made(list) : std::move(made));
  return *known;
}

const SavingKernel* SavingKernels::all() {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < candidates_.size(); ++i) chosen.push_back(i);
  const SavingKernel& kernel = way(chosen).kernel;
  return kernel.tiles.empty() ? nullptr : &kernel;
}

const SavingKernel* SavingKernels::choose(const LaunchSizes& sizes, bool cpu) {
  if (candidates_.empty()) return nullptr;
  const auto room = static_cast<double>(sizes.bytes);
  const double blocks = static_cast<double>(sizes.blocks[0] * sizes.blocks[1] * sizes.blocks[2]);
  // Loads of saved tiles are counted with their stores.
  const auto work = [&](const Way& of) {
    double sum = Work(of.derived.function, sizes, cpu).of(of.derived.function.body()), bytes = 0;
    for (const SavedTile& each : of.kernel.tiles) {
      const double own = bytes_of(each.dtype, each.shape);
      sum += 2 * access_of(each.dtype, each.shape) - own;
      bytes += own * blocks;
    }
    return bytes > room ? std::numeric_limits<double>::infinity() : sum;
  };
  std::vector<size_t> chosen;
  const SavingKernel* best = nullptr;
  double least = work(way(chosen));
  for (size_t i = 0; i < candidates_.size(); ++i) {
    chosen.push_back(i);
    const Way& with = way(chosen);
    if (const double own = work(with); own < least) {
      least = own;
      best = &with.kernel;
    } else {
      chosen.pop_back();
    }
  }
  return best;
}

ValueMap load_saved(Function& function, Block& block, const std::function<bool(const Op& op)>& is_store) {
  ValueMap loaded;
  for (size_t i = 0; i < block.ops.size();) {
    const Op& store = *block.ops[i];
    if (!is_store(store)) {
      ++i;
      continue;
    }
    std::vector<const Op*> changes;  // of the value before it is stored
    Value* value = store.operands[1];
    while (value->definition && (value->definition->is("reshape") || value->definition->is("astype"))) {
      changes.push_back(value->definition);
      value = value->definition->operands[0];
    }
    size_t at = 0;
    if (value->definition && value->definition->parent == &block)
      while (block.ops[at].get() != value->definition) ++at;
    Builder build(function, block);
    build.location = store.location;
    build.at(block, at);
    ValueMap copies;
    // The index is computed again, because the value is used before it is stored.
    const std::function<Value*(Value*)> copy = [&](Value* from) -> Value* {
      const Op* op = from->definition;
      if (!op || op->parent != &block) return from;
      if (const auto known = copies.find(from); known != copies.end()) return known->second;
      std::vector<Value*> operands;
      for (Value* operand : op->operands) operands.push_back(copy(operand));
      return copies[from] = build.create(*op->primitive, std::move(operands), op->attributes).result();
    };
    const Type& type = store.type(1);
    std::vector<Value*> operands{copy(store.operands[0])};
    for (size_t k = 2; k < store.operands.size(); ++k) operands.push_back(copy(store.operands[k]));
    const Attribute pad = Constant::of(type.dtype, 0).attribute();
    Value* made =
        build.emit("load", std::move(operands), {{"pad", pad}, {"shape", type.shape}, {"steps", type.shape}});
    for (size_t k = changes.size(); k-- > 0;) {
      const Type& before = changes[k]->type(0);
      made = changes[k]->is("astype") ? build.emit("astype", {made}, {{"dtype", before.dtype}})
                                      : build.emit("reshape", {made}, {{"shape", before.shape}});
    }
    loaded[value] = made;
    replace_uses(block, {{value, made}});
    std::erase_if(block.ops, [&](const std::unique_ptr<Op>& op) { return op.get() == &store; });
    i = 0;
  }
  return loaded;
}

}  // namespace tile
