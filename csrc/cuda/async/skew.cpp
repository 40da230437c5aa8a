// Finds such loops, divides their bodies in front and back, and builds the three parts.
#include "cuda/async/skew.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "cuda/array_facts.h"
#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

bool is_one(const Value* value) {
  const auto constant = constant_of(value);
  return constant && constant->integer == 1;
}
bool same(const Value* a, const Value* b) {
  const auto x = constant_of(a), y = constant_of(b);
  return a == b || (x && y && *x == *y);
}

// A loop's body: the back computes the sum, the front all else. Both compute what is shared.
struct Halves {
  Op* loop = nullptr;
  std::unordered_set<const Op*> shared;
  size_t sum = 0;              // the number of the carried sum
  std::vector<Op*> back;       // in order; the last is the product
  std::vector<Value*> passed;  // what the back takes from the front of its iteration, without the index
  bool uses_index = false;     // the back does
};

// Returns true if the op only renames or repeats elements, or computes a scalar or a view.
bool is_free(const Op& op) {
  if (op.results.empty() || !op.regions.empty() || !op.traits().pure()) return false;
  return !is_tile(op.results[0]) || op.is("broadcast") || op.is("permute");
}

// Returns the ops of the body that compute scalars and views of the index alone.
std::unordered_set<const Op*> ops_of_index(const Block& body, const KernelArrays& arrays) {
  std::unordered_set<const Op*> found;
  for (const auto& op : body.ops) {
    const bool computes = op->regions.empty() && !op->results.empty() && !is_tile(op->results[0]) &&
                          (op->traits().pure() || loads_scalar(*op, arrays));
    const bool of_index = std::all_of(op->operands.begin(), op->operands.end(), [&](const Value* operand) {
      return operand->owner != &body || operand == body.arguments[0] ||
             (operand->definition && found.count(operand->definition));
    });
    if (computes && of_index) found.insert(op.get());
  }
  return found;
}

std::optional<Halves> halves_of(Op& loop, size_t sum, const KernelArrays& arrays) {
  Halves halves{.loop = &loop, .sum = sum};
  Block& body = loop.region();
  Op* product = body.terminator()->operands[sum]->definition;
  if (!product || !product->is("mma") || product->parent != &body) return std::nullopt;
  const Value* argument = body.arguments[sum + 1];
  const Users users = users_of(body);
  const auto in_body = [&](const Value* value) {
    return value->definition && value->definition->parent == &body;
  };
  std::unordered_set<const Op*> back{product};
  // All that uses the carried sum.
  const std::function<bool(const Value*)> follow = [&](const Value* value) {
    const auto found = users.find(value);
    return found == users.end() || std::all_of(found->second.begin(), found->second.end(), [&](const Op* op) {
             if (op == product) return product->operands[2] == value;
             if (op->parent != &body || !op->traits().elementwise || !op->regions.empty()) return false;
             return !back.insert(op).second || follow(op->results[0]);
           });
  };
  const auto uses_of_product = users.find(product->results[0]);
  if (!follow(argument) || uses_of_product == users.end() || uses_of_product->second.size() != 1)
    return std::nullopt;
  // The right operand's load, and what only the back uses and costs nothing.
  const Op* right = mma_operand(product->operands[1]).value->definition;
  if (!right || !right->is("load") || right->parent != &body) return std::nullopt;
  const Op* left = mma_operand(product->operands[0]).value->definition;
  if (!left || left->is("load")) return std::nullopt;  // nothing has to be computed before it
  const auto only_back = [&](const Op& op) {
    return std::all_of(op.results.begin(), op.results.end(), [&](const Value* result) {
      const auto found = users.find(result);
      return found == users.end() || std::all_of(found->second.begin(), found->second.end(),
                                                 [&](const Op* user) { return back.count(user) != 0; });
    });
  };
  for (size_t i = body.ops.size(); i-- > 0;) {
    const Op& op = *body.ops[i];
    if (&op != body.terminator() && (&op == right || is_free(op)) && only_back(op)) back.insert(&op);
  }
  if (!back.count(right)) return std::nullopt;
  const std::unordered_set<const Op*> of_index = ops_of_index(body, arrays);
  for (size_t i = body.ops.size(); i-- > 0;) {
    if (!back.count(body.ops[i].get())) continue;
    for (const Value* operand : body.ops[i]->operands)
      if (const Op* made = operand->definition; made && of_index.count(made) && back.insert(made).second)
        halves.shared.insert(made);
  }
  bool front_multiplies = false;
  for (const auto& op : body.ops) {
    if (!op->regions.empty() || op->traits().acts()) return std::nullopt;
    if (back.count(op.get())) {
      halves.back.push_back(op.get());
      for (Value* operand : op->operands) {
        const bool given = operand == argument || (in_body(operand) && back.count(operand->definition));
        const bool here = in_body(operand) || operand->owner == &body;
        if (operand == body.arguments[0])
          halves.uses_index = true;
        else if (!given && here &&
                 std::find(halves.passed.begin(), halves.passed.end(), operand) == halves.passed.end())
          halves.passed.push_back(operand);
      }
    } else {
      front_multiplies = front_multiplies || op->is("mma");
    }
  }
  const bool tiles = std::all_of(halves.passed.begin(), halves.passed.end(), is_tile);
  if (!front_multiplies || !tiles || halves.back.back() != product) return std::nullopt;
  return halves;
}

// Returns true if a thread's registers hold the sum, the largest other product and the values that the back
// uses, beside about 24 others.
bool fits_registers(const Halves& halves) {
  const Op& product = *halves.back.back();
  const int64_t rows = product.type(2).shape[0];
  const bool three = rows == 192;
  const int64_t blocks = three ? 1 : std::max<int64_t>(1, rows / 128);
  int64_t words = product.type(2).shape[1] / 2 * blocks;
  for (const Value* value : halves.passed) words += bytes_of(value->type) / 4 / (rows / blocks) * blocks / 2;
  int64_t most = 0;
  for (const auto& op : halves.loop->region().ops)
    if (op->is("mma") && op.get() != &product) most = std::max(most, op->type(2).shape[1] / 2 * blocks);
  // Threads of three groups have 160 registers, and a part with an edge needs some for its masks: more words
  // than this spilled, and the kernel was compiled again without skew.
  constexpr int64_t most_of_three_groups = 104, most_of_fewer_groups = 200;
  return words + most <= (three ? most_of_three_groups : most_of_fewer_groups);
}

// Returns true if the loops' backs are the same computation of what they take.
bool same_backs(const Halves& a, const Halves& b) {
  if (a.back.size() != b.back.size() || a.passed.size() != b.passed.size() || a.uses_index != b.uses_index)
    return false;
  std::unordered_map<const Value*, const Value*> matched;
  for (size_t i = 0; i < a.passed.size(); ++i) {
    if (!(a.passed[i]->type == b.passed[i]->type)) return false;
    matched[a.passed[i]] = b.passed[i];
  }
  for (const size_t number : {size_t{0}, a.sum + 1})
    matched[a.loop->region().arguments[number]] = b.loop->region().arguments[number];
  for (size_t i = 0; i < a.back.size(); ++i) {
    const Op &x = *a.back[i], &y = *b.back[i];
    if (x.name() != y.name() || x.operands.size() != y.operands.size()) return false;
    for (size_t k = 0; k < x.operands.size(); ++k) {
      const auto found = matched.find(x.operands[k]);
      if (found != matched.end() ? found->second != y.operands[k] : !same(x.operands[k], y.operands[k]))
        return false;
    }
    for (size_t k = 0; k < x.results.size(); ++k) matched[x.results[k]] = y.results[k];
  }
  return true;
}

class Skew {
 public:
  Skew(Function& function, Block& block, std::vector<Halves> parts)
      : function_(function), block_(block), parts_(std::move(parts)), build_(function, block) {}

  void run() {
    const Op& first = *parts_[0].loop;
    const Op& last = *parts_.back().loop;
    const auto position = [&](const Op& loop) {
      const auto found = std::find_if(block_.ops.begin(), block_.ops.end(),
                                      [&](const auto& op) { return op.get() == &loop; });
      return static_cast<size_t>(found - block_.ops.begin());
    };
    build_.at(block_, position(last) + 1);
    build_.location = first.location;
    const DType index = first.type(0).dtype;
    one_ = build_.constant(index, 1);
    Value *low = first.operands[0], *high = last.operands[1];
    for (const Halves& part : parts_)
      if (part.loop->operands[0] != low) low = build_.emit("minimum", {low, part.loop->operands[0]});
    Value* second = build_.emit("add", {low, one_});
    const size_t sum = parts_[0].sum;
    const std::vector<Value*> initial(first.operands.begin() + 3, first.operands.end());
    // Without an iteration nothing uses the zeros.
    std::vector<Value*> carried = initial, passed;
    for (const Value* value : parts_[0].passed)
      passed.push_back(build_.splat(Constant::of(value->type.dtype, 0), value->type.shape));
    front(low, build_.emit("minimum", {second, high}), carried, passed);
    for (const Halves& part : parts_) {
      both(part, build_.emit("maximum", {second, part.loop->operands[0]}), carried, passed);
    }
    Value* ended = build_.emit("maximum", {low, build_.emit("sub", {high, one_})});
    carried[sum] = back(ended, high, carried[sum], passed);
    ValueMap results;
    for (size_t i = 0; i < carried.size(); ++i) results[last.results[i]] = carried[i];
    std::vector<std::unique_ptr<Op>> dropped;
    for (const Halves& part : parts_) {
      const size_t at = position(*part.loop);
      dropped.push_back(std::move(block_.ops[at]));
      block_.ops.erase(block_.ops.begin() + static_cast<ptrdiff_t>(at));
    }
    replace_uses(function_.body(), results);
  }

 private:
  // A loop with these carried values, the body of which `fill` makes and yields.
  template <class F>
  std::vector<Value*> loop(const Op& like, Value* low, Value* high, const std::vector<Value*>& initial,
                           F fill) {
    auto made = std::make_unique<Op>();
    made->primitive = like.primitive;
    made->attributes = like.attributes;
    made->location = like.location;
    made->operands = {low, high, like.operands[2]};
    made->operands.insert(made->operands.end(), initial.begin(), initial.end());
    made->regions.push_back(std::make_unique<Block>());
    Block& body = made->region();
    body.parent = made.get();
    const Block& old = like.region();
    std::vector<Value*> arguments{
        function_.add_argument(body, old.arguments[0]->type, old.arguments[0]->location)};
    for (const Value* value : initial)
      arguments.push_back(function_.add_argument(body, value->type, value->location));
    Builder inside(function_, body);
    inside.location = like.location;
    std::vector<Value*> yielded = fill(inside, arguments);
    inside.location = like.location;
    inside.create(primitive("yield"), std::move(yielded));
    return build_.insert(std::move(made)).results;
  }
  static bool is_back(const Halves& part, const Op& op) {
    return !part.shared.count(&op) && std::find(part.back.begin(), part.back.end(), &op) != part.back.end();
  }
  static Value* mapped(const ValueMap& map, Value* value) {
    const auto found = map.find(value);
    return found == map.end() ? value : found->second;
  }
  // Returns the values that the next iteration uses, except the sum: the carried ones, and those of the back.
  static std::vector<Value*> results_of(const Halves& part, const ValueMap& map) {
    std::vector<Value*> results;
    const Block& body = part.loop->region();
    for (size_t i = 0; i + 1 < body.arguments.size(); ++i)
      if (i != part.sum) results.push_back(mapped(map, body.terminator()->operands[i]));
    for (Value* value : part.passed) results.push_back(mapped(map, value));
    return results;
  }
  std::vector<Value*> without_sum(std::vector<Value*> carried) const {
    carried.erase(carried.begin() + static_cast<ptrdiff_t>(parts_[0].sum));
    return carried;
  }
  void take(const std::vector<Value*>& results, std::vector<Value*>& carried,
            std::vector<Value*>& passed) const {
    size_t at = 0;
    for (size_t i = 0; i < carried.size(); ++i)
      if (i != parts_[0].sum) carried[i] = results[at++];
    for (Value*& value : passed) value = results[at++];
  }

  // The part with all masks, which is right for every iteration.
  const Halves& whole() const {
    for (const Halves& part : parts_)
      if (part.loop->has("edge")) return part;
    return parts_[0];
  }
  void front(Value* low, Value* high, std::vector<Value*>& carried, std::vector<Value*>& passed) {
    const Halves& part = whole();
    std::vector<Value*> initial = without_sum(carried);
    initial.insert(initial.end(), passed.begin(), passed.end());
    take(loop(*part.loop, low, high, initial,
              [&](Builder& inside, const std::vector<Value*>& arguments) {
                ValueMap map = own_arguments(part, arguments);
                for (const auto& op : part.loop->region().ops)
                  if (!is_back(part, *op) && !op->traits().terminator)
                    inside.insert(clone(*op, function_, map));
                return results_of(part, map);
              }),
         carried, passed);
  }
  // Maps the old index and carried values but the sum.
  static ValueMap own_arguments(const Halves& part, const std::vector<Value*>& arguments) {
    const Block& body = part.loop->region();
    ValueMap map{{body.arguments[0], arguments[0]}};
    size_t at = 1;
    for (size_t i = 0; i + 1 < body.arguments.size(); ++i)
      if (i != part.sum) map[body.arguments[i + 1]] = arguments[at++];
    return map;
  }
  void both(const Halves& part, Value* low, std::vector<Value*>& carried, std::vector<Value*>& passed) {
    std::vector<Value*> initial = without_sum(carried);
    const size_t own = initial.size();
    initial.insert(initial.end(), passed.begin(), passed.end());
    initial.push_back(carried[part.sum]);
    std::vector<Value*> results = loop(
        *part.loop, low, part.loop->operands[1], initial,
        [&](Builder& inside, const std::vector<Value*>& arguments) {
          ValueMap map = own_arguments(part, arguments);
          const std::vector<Value*> before(arguments.begin() + static_cast<ptrdiff_t>(own) + 1,
                                           arguments.end() - 1);
          Value* sum = nullptr;
          const auto add = [&] {
            sum = this->sum(part, inside, inside.emit("sub", {arguments[0], one_}), before, arguments.back());
          };
          for (const auto& op : part.loop->region().ops) {
            if (is_back(part, *op) || op->traits().terminator) continue;
            inside.insert(clone(*op, function_, map));
            if (op->is("mma") && !sum) add();
          }
          std::vector<Value*> yielded = results_of(part, map);
          yielded.push_back(sum);
          return yielded;
        });
    carried[part.sum] = results.back();
    results.pop_back();
    take(results, carried, passed);
  }
  Value* back(Value* low, Value* high, Value* before, const std::vector<Value*>& passed) {
    const Halves& part = whole();
    return loop(*part.loop, low, high, {before}, [&](Builder& inside, const std::vector<Value*>& arguments) {
      return std::vector{sum(part, inside, arguments[0], passed, arguments[1])};
    })[0];
  }
  // The sum of the iteration with this index.
  Value* sum(const Halves& part, Builder& to, Value* index, const std::vector<Value*>& passed,
             Value* before) {
    const Block& body = part.loop->region();
    ValueMap map{{body.arguments[0], index}, {body.arguments[part.sum + 1], before}};
    for (size_t i = 0; i < passed.size(); ++i) map[part.passed[i]] = passed[i];
    for (const Op* op : part.back) to.insert(clone(*op, function_, map));
    return map.at(part.back.back()->results[0]);
  }

  Function& function_;
  Block& block_;
  const std::vector<Halves> parts_;
  Builder build_;
  Value* one_ = nullptr;
};

// Returns true if both are parts of one loop, and `next` goes on where `loop` ends, with its results and
// nothing else of it.
bool goes_on(const Op& loop, const Op& next, const Users& users) {
  if (!next.is("for") || !loop.has("split") || loop.integer("split") != next.integer_or("split", 0) ||
      next.results.size() != loop.results.size())
    return false;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const auto found = users.find(loop.results[i]);
    if (next.operands[i + 3] != loop.results[i] || found->second.size() != 1) return false;
  }
  const Value* from = next.operands[0];
  if (same(from, loop.operands[1])) return true;
  const Op* made = from->definition;
  if (!made || !made->is("maximum")) return false;
  const auto is = [&](size_t a, size_t b) {
    return same(made->operands[a], loop.operands[0]) && same(made->operands[b], loop.operands[1]);
  };
  return is(0, 1) || is(1, 0);
}

bool skew_one(Function& function, Block& block) {
  const KernelArrays arrays(function);
  const Users users = users_of(block);
  const auto& ops = block.ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i]->is("for") || !is_one(ops[i]->operands[2])) continue;
    for (size_t sum = 0; sum < ops[i]->results.size(); ++sum) {
      std::vector<Halves> parts;
      for (size_t k = i; k < ops.size(); ++k) {
        // The parts move behind the last one.
        if (!ops[k]->is("for") && ops[k]->traits().pure()) continue;
        if (!ops[k]->is("for") || (!parts.empty() && !goes_on(*parts.back().loop, *ops[k], users))) break;
        auto halves = halves_of(*ops[k], sum, arrays);
        if (!halves || !fits_registers(*halves)) break;
        if (!parts.empty() && !same_backs(parts[0], *halves)) break;
        parts.push_back(std::move(*halves));
      }
      if (parts.empty()) continue;
      Skew(function, block, std::move(parts)).run();
      return true;
    }
  }
  return false;
}

}  // namespace

void skew_loops(Function& function) {
  std::vector<Block*> blocks{&function.body()};
  for (size_t i = 0; i < blocks.size(); ++i) {
    while (skew_one(function, *blocks[i])) {  // what it makes stays as it is
    }
    for (const auto& op : blocks[i]->ops)
      for (const auto& region : op->regions) blocks.push_back(region.get());
  }
}

}  // namespace tile::cuda
