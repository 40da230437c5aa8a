// Decides along which axis a tile grows with the number of iterations.
#include "derive/coarsening.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile {

void Coarsening::refuse(const Op& op) const { fail(op, ErrorKind::unsupported, "has no wider form"); }

int Coarsening::axis(const Value* value) {
  if (factor_ == 1) return -1;
  if (const auto at = known_.find(value); at != known_.end()) return at->second;
  return known_[value] = find(value);
}

int Coarsening::axis_of_access(const Op& access) {
  const size_t first = access.traits().writes ? 2 : 1;
  const Value* index = loop_.region().arguments[0];
  int found = -1;
  if (!access.has("steps") || access.traits().picks || axis(access.operands[0]) != -1) refuse(access);
  const Shape& shape = access.traits().writes ? access.type(1).shape : access.integers("shape");
  for (size_t i = first; i < access.operands.size(); ++i) {
    if (access.operands[i] != index) {
      if (axis(access.operands[i]) != -1) refuse(access);
      continue;
    }
    const size_t at = i - first;
    if (found >= 0 || access.integers("steps")[at] != shape[at]) refuse(access);
    found = static_cast<int>(at);
  }
  return found;
}

const Ramp* Coarsening::ramp(const Value* value) {
  const auto at = ramps_.find(value);
  return grows(value) && at != ramps_.end() ? &at->second : nullptr;
}

std::optional<Ramp> Coarsening::find_ramp(const Value* value) {
  if (!is_integer(value->type.dtype) || value->type.is_scalar()) return std::nullopt;
  std::optional<Ramp> ramp = ramp_of(const_cast<Value*>(value));
  if (!ramp || ramp->axis < 0) return std::nullopt;
  // One of the scalars is the index times the extent.
  const auto without_casts = [](const Value* each) {
    while (each->definition && each->definition->is("astype")) each = each->definition->operands[0];
    return each;
  };
  const auto counts = [&](const Value* each) {
    const Op* op = without_casts(each)->definition;
    if (!op || !op->is("mul")) return false;
    for (size_t i = 0; i < 2; ++i)
      if (const auto by = constant_of(without_casts(op->operands[i])))
        return by->integer == ramp->extent &&
               without_casts(op->operands[1 - i]) == loop_.region().arguments[0];
    return false;
  };
  const auto at = std::find_if(ramp->scalars.begin(), ramp->scalars.end(), counts);
  if (at == ramp->scalars.end()) return std::nullopt;
  ramp->scalars.erase(at);
  for (const Value* each : ramp->scalars)
    if (axis(each) != -1) return std::nullopt;
  return ramp;
}

int Coarsening::find(const Value* value) {
  constexpr int scalar = -2;  // depends on the index, and has no axis
  if (value == loop_.region().arguments[0]) return scalar;
  const Op* op = value->definition;
  if (!op || !defined_inside(value, loop_.region())) return -1;
  if (!op->regions.empty()) {
    for (const auto& region : op->regions)
      walk(*region, [&](const Op& each) {
        for (const Value* operand : each.operands)
          if (!defined_inside(operand, *region) && axis(operand) != -1) refuse(*op);
      });
  }
  if (op->traits().reads) return axis_of_access(*op);
  if (const std::optional<Ramp> ramp = find_ramp(value)) {
    ramps_[value] = *ramp;
    return ramp->axis;
  }
  int found = -1;
  for (const Value* operand : op->operands) {
    const int own = axis(operand);
    if (own == scalar && value->type.is_scalar() && op->traits().pure()) return scalar;
    if (op->is("broadcast") && own == scalar) return scalar;  // of no use but in a ramp
    if (own == scalar || (found >= 0 && own >= 0 && own != found && !op->is("mma"))) refuse(*op);
    found = std::max(found, own);
  }
  if (found < 0) return -1;
  if (op->traits().elementwise || op->is("broadcast")) {
    const Shape &from = op->type(0).shape, &to = value->type.shape;
    if (op->is("broadcast") && (from.size() != to.size() || from[static_cast<size_t>(found)] == 1))
      refuse(*op);
    return found;
  }
  if (op->is("permute")) {
    const auto& axes = op->integers("axes");
    return static_cast<int>(std::find(axes.begin(), axes.end(), found) - axes.begin());
  }
  if (op->is("reshape")) {
    const Shape &from = op->type(0).shape, &to = value->type.shape;
    int64_t before = 1;
    for (int i = 0; i < found; ++i) before *= from[static_cast<size_t>(i)];
    for (size_t i = 0; i < to.size(); before /= to[i++])
      if (before == 1 && to[i] == from[static_cast<size_t>(found)] && to[i] > 1) return static_cast<int>(i);
    refuse(*op);
  }
  if (op->is("reduce_sum") || op->is("reduce_max") || op->is("reduce_min")) {
    const auto& axes = op->integers("axes");
    if (std::find(axes.begin(), axes.end(), found) != axes.end()) refuse(*op);
    return found - static_cast<int>(
                       std::count_if(axes.begin(), axes.end(), [&](int64_t each) { return each < found; }));
  }
  if (!op->is("mma")) refuse(*op);
  const int rank = value->type.rank(), left = axis(op->operands[0]), right = axis(op->operands[1]);
  if (left >= 0 && right >= 0) refuse(*op);
  const int own = left >= 0 ? left : right;
  const int summed = left >= 0 ? rank - 1 : rank - 2;
  const int start = axis(op->operands[2]);
  if (own < 0 || own == summed || (rank == 3 && own == 0) || (start >= 0 && start != own)) refuse(*op);
  return own;
}

Shape Coarsening::shape(const Value* value) {
  Shape shape = value->type.shape;
  if (const int along = axis(value); factor_ > 1 && along >= 0) shape[static_cast<size_t>(along)] *= factor_;
  return shape;
}

Attributes Coarsening::attributes(const Op& op) {
  Attributes attributes = op.attributes;
  const bool stores = op.traits().writes;
  const int along = stores ? axis_of_access(op) : axis(op.result());
  if (factor_ == 1 || along < 0) return attributes;
  const auto grow = [&](std::string_view name) {
    Shape extents = op.integers(name);
    extents[static_cast<size_t>(along)] *= factor_;
    attributes.set(name, extents);
  };
  if (stores || op.traits().reads) grow("steps");
  if (op.has("shape")) grow("shape");
  return attributes;
}

}  // namespace tile
