// Reverse mode of primitives that move elements between tiles.
#include <numeric>

#include "prims/adjoints.h"

namespace tile {

void adjoint_of_reshape(Adjoints& adjoints) {
  if (Value* g = adjoints.of()) adjoints.add(0, adjoints.reshaped(g, adjoints.op.type(0).shape));
}

void adjoint_of_permute(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const auto& axes = adjoints.op.integers("axes");
  std::vector<int64_t> back(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  adjoints.add(0, adjoints.emit("permute", {g}, {{"axes", back}}));
}

namespace {

// Returns `count` pieces of extent `each` along an axis, from piece `first` on, joined.
Value* pieces(Adjoints& adjoints, Value* x, size_t axis, int64_t each, int64_t first, int64_t count) {
  Shape shape = x->type.shape;
  shape[axis] = each;
  Value* joined = nullptr;
  for (int64_t i = first; i < first + count; ++i) {
    std::vector<Value*> operands{x};
    for (size_t k = 0; k < shape.size(); ++k)
      operands.push_back(adjoints.build.constant(DType::i32, k == axis ? i : int64_t{0}));
    Value* piece = adjoints.emit("extract", std::move(operands), {{"shape", shape}});
    joined = joined ? adjoints.emit("cat", {joined, piece}, {{"axis", static_cast<int64_t>(axis)}}) : piece;
  }
  return joined;
}

}  // namespace

void adjoint_of_cat(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const auto axis = static_cast<size_t>(adjoints.op.integer("axis"));
  const int64_t first = adjoints.op.type(0).shape[axis], second = adjoints.op.type(1).shape[axis];
  const int64_t each = std::gcd(first, second);  // extents of sub-tiles divide the tile's
  if (adjoints.wants(0)) adjoints.add(0, pieces(adjoints, g, axis, each, 0, first / each));
  if (adjoints.wants(1)) adjoints.add(1, pieces(adjoints, g, axis, each, first / each, second / each));
}

void adjoint_of_extract(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const Op& op = adjoints.op;
  std::vector<Value*> operands{adjoints.zeros(adjoint_type(op.type(0))), g};
  operands.insert(operands.end(), op.operands.begin() + 1, op.operands.end());
  adjoints.add(0, adjoints.emit("insert", std::move(operands)));
}

void adjoint_of_insert(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const Op& op = adjoints.op;
  const auto at = [&](std::vector<Value*> operands) {
    operands.insert(operands.end(), op.operands.begin() + 2, op.operands.end());
    return operands;
  };
  if (adjoints.wants(0))
    adjoints.add(0, adjoints.emit("insert", at({g, adjoints.zeros(adjoint_type(op.type(1)))})));
  if (adjoints.wants(1)) adjoints.add(1, adjoints.emit("extract", at({g}), {{"shape", op.type(1).shape}}));
}

}  // namespace tile
