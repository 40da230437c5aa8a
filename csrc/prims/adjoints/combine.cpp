// Reverse mode of reductions and scans by a region f, as if elements were combined one after the other:
// y[i] = f(y[i - 1], x[i]). The adjoint of y[i] is that of the result, plus what f gives it in step i + 1,
// which is linear in the adjoint of y[i + 1]. So it is a scan from the other end, of matrices and vectors:
// the derivatives of f by its first arguments, and what they make of the results' adjoints.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/walk.h"
#include "prims/adjoints.h"

namespace tile {
namespace {

using Values = std::vector<Value*>;
using Parts = std::unordered_map<const Value*, Value*>;

bool is_float(const Value* value) { return is_floating(value->type.dtype); }

// The op of a region, applied to tiles.
class TileAdjoints : public Adjoints {
 public:
  TileAdjoints(Builder& build, const Op& op, const std::unordered_set<const Value*>& active, Parts& parts)
      : Adjoints(build, op), active_(active), parts_(parts) {}
  using Adjoints::of;
  Value* of(size_t result) const override {
    const auto at = parts_.find(op.result(result));
    return at == parts_.end() ? nullptr : at->second;
  }
  bool wants(size_t operand) const override { return active_.contains(op.operands.at(operand)); }
  void add(size_t operand, Value* part) override {
    Value* value = op.operands.at(operand);
    if (!active_.contains(value)) return;
    part = cast(part, adjoint_dtype(value->type.dtype));
    const auto [at, made] = parts_.try_emplace(value, part);
    if (!made) at->second = emit("add", {at->second, part});
  }
  GradientMemory read_gradient() override { return {}; }
  Value* written_gradient() override { return nullptr; }
  bool wants_outside(const Value*) override { return false; }
  void add_outside(Value*, Value*) override {}
  bool is_finite_in_padding(const Value*) const override { return false; }

 private:
  const std::unordered_set<const Value*>& active_;
  Parts& parts_;
};

// The region as a function of tiles of one shape.
class TileFunction {
 public:
  TileFunction(Adjoints& adjoints, const Values& old, const Values& next)
      : build_(adjoints.build), shape_(adjoints.op.type(0).shape) {
    const Block& region = adjoints.op.region();
    for (size_t k = 0; k < old.size(); ++k) {
      this->old.push_back(leaf(old[k]));
      this->next.push_back(leaf(next[k]));
      map_[region.arguments[k]] = this->old[k];
      map_[region.arguments[old.size() + k]] = this->next[k];
    }
    for (const auto& each : region.ops) {
      if (each->traits().terminator) {
        for (Value* value : each->operands) results.push_back(of(value, adjoints));
        continue;
      }
      if (!each->traits().elementwise && !each->operands.empty())
        fail_without_derivative(*each, "in a region only elementwise operations have one");
      Values operands;
      bool any = false;
      for (Value* operand : each->operands) {
        operands.push_back(of(operand, adjoints));
        any |= active_.contains(operands.back());
      }
      build_.location = each->location;
      Op& op = build_.create(*each->primitive, std::move(operands), each->attributes);
      Value*& copy = map_[each->result()] = op.result();
      if (each->operands.empty()) copy = build_.broadcast(copy, shape_);
      if (!any || op.primitive->adjoint == no_adjoint) continue;
      ops_.push_back(&op);
      if (is_float(copy)) active_.insert(copy);
    }
    build_.location = adjoints.build.location;
  }

  // Returns the adjoints of the function's arguments and of what it takes from outside. seeds: of the
  // results; null: none.
  Parts pull_back(const Values& seeds) {
    Parts parts;
    for (size_t k = 0; k < seeds.size(); ++k) {
      if (!seeds[k] || !active_.contains(results[k])) continue;
      const auto [at, made] = parts.try_emplace(results[k], seeds[k]);
      if (!made) at->second = build_.emit("add", {at->second, seeds[k]});
    }
    for (size_t i = ops_.size(); i-- > 0;) {
      const Op& op = *ops_[i];
      const bool given = parts.contains(op.result());
      if (!given && (is_float(op.result()) || !op.primitive->adjoint))
        continue;  // integers may be bits of floats
      if (!op.primitive->adjoint)
        fail_without_derivative(op, "compute this part by other means, or write the gradient by hand");
      TileAdjoints adjoints(build_, op, active_, parts);
      op.primitive->adjoint(adjoints);
    }
    return parts;
  }

  Values old, next, results;
  std::vector<std::pair<Value*, Value*>> outside;  // scalars, and the tiles of them

 private:
  // Two arguments that are one tile have adjoints of their own.
  Value* leaf(Value* tile) {
    Value* own = build_.emit("reshape", {tile}, {{"shape", shape_}});
    if (is_float(own)) active_.insert(own);
    return own;
  }
  Value* of(Value* value, Adjoints& adjoints) {
    if (const auto at = map_.find(value); at != map_.end()) return at->second;
    Value* tile = map_[value] = build_.broadcast(value, shape_);
    if (adjoints.wants_outside(value)) {
      outside.emplace_back(value, tile);
      active_.insert(tile);
    }
    return tile;
  }

  Builder& build_;
  const Shape shape_;
  ValueMap map_;
  std::vector<const Op*> ops_;
  std::unordered_set<const Value*> active_;
};

class Combination {
 public:
  explicit Combination(Adjoints& adjoints)
      : adjoints_(adjoints),
        build_(adjoints.build),
        op_(adjoints.op),
        shape_(op_.type(0).shape),
        axis_(op_.integer("axis")),
        reverse_(op_.integer_or("reverse", 0) != 0) {
    for (size_t k = 0; k < op_.operands.size(); ++k) {
      if (!is_float(op_.operands[k])) continue;
      floats_.push_back(k);
      if (op_.type(k).dtype == DType::f64) dtype_ = DType::f64;
    }
  }

  void run() {
    bool given = false;
    for (const size_t k : floats_) given |= adjoints_.of(k) != nullptr;
    if (!given) return;
    const int64_t extent = shape_[static_cast<size_t>(axis_)];
    Value* place = places();
    const auto is_at = [&](int64_t at) { return build_.emit("eq", {place, of_integer(at)}); };
    Value *first = is_at(reverse_ ? extent - 1 : 0), *last = is_at(reverse_ ? 0 : extent - 1);
    TileFunction function(adjoints_, shifted(scanned(), reverse_), op_.operands);

    // The adjoint of y[i] but for what step i + 1 gives it.
    const size_t n = floats_.size();
    Values given_parts;
    for (const size_t k : floats_) given_parts.push_back(incoming(k, last));
    std::vector<Values> matrix(n, Values(n));  // [j][k]: of result k by argument j
    for (size_t k = 0; k < n; ++k) {
      Values seeds(op_.operands.size());
      const Type& type = function.results[floats_[k]]->type;
      seeds[floats_[k]] = build_.splat(Constant::of(adjoint_dtype(type.dtype), 1), shape_);
      Parts parts = function.pull_back(seeds);
      for (size_t j = 0; j < n; ++j)
        if (const auto at = parts.find(function.old[floats_[j]]); at != parts.end())
          matrix[j][k] = build_.astype(at->second, dtype_);
    }
    Values later = shifted(from_the_other_end(matrix, given_parts), !reverse_);
    Values seeds(op_.operands.size());
    for (size_t k = 0; k < n; ++k) {
      Value* passed = build_.emit("where", {last, zeros(), later[k]});
      Value* sum = build_.emit("add", {given_parts[k], passed});
      seeds[floats_[k]] = build_.astype(sum, adjoint_dtype(op_.type(floats_[k]).dtype));
    }
    Parts parts = function.pull_back(seeds);
    for (const size_t k : floats_) {
      if (!adjoints_.wants(k)) continue;
      const auto at = parts.find(function.next[k]);
      Value* part = at == parts.end() ? adjoints_.zeros(seeds[k]->type) : at->second;
      adjoints_.add(k, build_.emit("where", {first, seeds[k], part}));  // the first element is y itself
    }
    for (const auto& [scalar, tile] : function.outside) {
      const auto at = parts.find(tile);
      if (at == parts.end()) continue;
      Value* part = build_.emit("where", {first, adjoints_.zeros(at->second->type), at->second});
      std::vector<int64_t> axes;
      for (size_t i = 0; i < shape_.size(); ++i) axes.push_back(static_cast<int64_t>(i));
      adjoints_.add_outside(scalar, build_.emit("reduce_sum", {part}, {{"axes", axes}}));
    }
  }

 private:
  Value* zeros() { return build_.splat(Constant::of(dtype_, 0), shape_); }
  Value* of_integer(int64_t value) { return build_.splat(Constant::of(DType::i32, value), shape_); }
  Value* places() {
    const int64_t extent = shape_[static_cast<size_t>(axis_)];
    Shape line(shape_.size(), 1);
    line[static_cast<size_t>(axis_)] = extent;
    Value* range = build_.emit("arange", {}, {{"dtype", DType::i32}, {"size", extent}});
    return build_.broadcast(build_.emit("reshape", {range}, {{"shape", line}}), shape_);
  }

  // The adjoint of result k for each element: in f32 or f64.
  Value* incoming(size_t k, Value* last) {
    Value* g = adjoints_.of(k);
    if (!g) return zeros();
    g = build_.astype(g, dtype_);
    if (op_.is("scan")) return g;
    Shape open = shape_;
    open[static_cast<size_t>(axis_)] = 1;
    Value* spread = build_.broadcast(adjoints_.reshaped(g, open), shape_);
    return build_.emit("where", {last, spread, zeros()});
  }

  // y, for all elements.
  Values scanned() {
    if (op_.is("scan")) return op_.results;
    ValueMap map;
    std::unique_ptr<Op> scan = clone(op_, build_.function(), map);
    scan->primitive = &primitive("scan");
    scan->results.clear();
    return build_.insert(std::move(scan)).results;
  }

  Values scan(const Values& tiles, bool reverse, const ScanStep& step) {
    return emit_scan(build_, tiles, axis_, reverse, step);
  }

  // Returns for each element the one before it, in the order of a scan; the first ones stay. A part of the
  // axis is a count, the last element but one, and the last: the former is of the part before if the part is
  // one element.
  Values shifted(const Values& tiles, bool reverse) {
    const size_t n = tiles.size();
    Values operands{of_integer(1)};
    for (size_t twice = 0; twice < 2; ++twice) operands.insert(operands.end(), tiles.begin(), tiles.end());
    const Values all = scan(operands, reverse, [&](Builder& build, const Values& old, const Values& next) {
      Values yields{build.emit("add", {old[0], next[0]})};
      Value* one = build.emit("eq", {next[0], build.constant(DType::i32, 1)});
      for (size_t k = 0; k < n; ++k)
        yields.push_back(build.emit("where", {one, old[1 + n + k], next[1 + k]}));
      for (size_t k = 0; k < n; ++k) yields.push_back(next[1 + n + k]);
      return yields;
    });
    return {all.begin() + 1, all.begin() + 1 + static_cast<ptrdiff_t>(n)};
  }

  // Returns what each step gives the adjoint of its first arguments: M (g + that of the next step), where M
  // is the step's matrix. null: always 0.
  Values from_the_other_end(const std::vector<Values>& matrix, const Values& given) {
    const size_t n = matrix.size();
    std::vector<std::vector<bool>> some(n, std::vector<bool>(n));
    for (size_t j = 0; j < n; ++j)
      for (size_t k = 0; k < n; ++k) some[j][k] = matrix[j][k];
    for (size_t by = 0; by < n; ++by)  // products of matrices have elements that these do not have
      for (size_t j = 0; j < n; ++j)
        for (size_t k = 0; k < n; ++k)
          if (some[j][by] && some[by][k]) some[j][k] = true;
    Values operands;
    std::vector<std::vector<size_t>> place(n, std::vector<size_t>(n));
    for (size_t j = 0; j < n; ++j)
      for (size_t k = 0; k < n; ++k) {
        if (!some[j][k]) continue;
        place[j][k] = operands.size();
        operands.push_back(matrix[j][k] ? matrix[j][k] : zeros());
      }
    const size_t vector = operands.size();
    for (size_t j = 0; j < n; ++j) {
      Value* sum = nullptr;
      for (size_t k = 0; k < n; ++k)
        if (matrix[j][k]) sum = added(build_, sum, scaled(build_, matrix[j][k], given[k]));
      operands.push_back(sum ? sum : zeros());
    }
    const Values all = scan(operands, !reverse_, [&](Builder& build, const Values& old, const Values& next) {
      Values yields;
      for (size_t j = 0; j < n; ++j)
        for (size_t k = 0; k < n; ++k) {
          if (!some[j][k]) continue;
          Value* sum = nullptr;
          for (size_t by = 0; by < n; ++by)
            if (some[j][by] && some[by][k])
              sum = added(build, sum, build.emit("mul", {next[place[j][by]], old[place[by][k]]}));
          yields.push_back(sum ? sum : build.constant(Constant::of(dtype_, 0)));
        }
      for (size_t j = 0; j < n; ++j) {
        Value* sum = next[vector + j];
        for (size_t k = 0; k < n; ++k)
          if (some[j][k]) sum = added(build, sum, scaled(build, next[place[j][k]], old[vector + k]));
        yields.push_back(sum);
      }
      return yields;
    });
    return {all.begin() + static_cast<ptrdiff_t>(vector), all.end()};
  }
  // In padding the adjoint is 0, and the factor may be infinite or NaN.
  static Value* scaled(Builder& build, Value* factor, Value* g) {
    Value* zeros = build.splat(Constant::of(g->type.dtype, 0), g->type.shape);
    return build.emit("where", {build.emit("eq", {g, zeros}), zeros, build.emit("mul", {factor, g})});
  }
  static Value* added(Builder& build, Value* sum, Value* part) {
    return sum ? build.emit("add", {sum, part}) : part;
  }

  Adjoints& adjoints_;
  Builder& build_;
  const Op& op_;
  const Shape shape_;
  const int64_t axis_;
  const bool reverse_;
  std::vector<size_t> floats_;  // numbers of the operands that have adjoints
  DType dtype_ = DType::f32;    // of the scan from the other end
};

}  // namespace

std::vector<Value*> emit_scan(Builder& build, const std::vector<Value*>& tiles, int64_t axis, bool reverse,
                              const ScanStep& step) {
  auto made = std::make_unique<Op>();
  made->primitive = &primitive("scan");
  made->location = build.location;
  made->operands = tiles;
  made->attributes.set("axis", axis);
  made->attributes.set("reverse", int64_t{reverse});
  auto region = std::make_unique<Block>();
  Values old, next;
  for (Values* list : {&old, &next})
    for (const Value* tile : tiles)
      list->push_back(build.function().add_argument(*region, Type::tile(tile->type.dtype), build.location));
  Builder inside(build.function(), *region);
  inside.location = build.location;
  Values yields = step(inside, old, next);
  inside.create(primitive("yield"), std::move(yields));
  made->regions.push_back(std::move(region));
  return build.insert(std::move(made)).results;
}

void adjoint_of_combine(Adjoints& adjoints) { Combination(adjoints).run(); }

}  // namespace tile
