// Reverse mode of memory accesses: what is read passes its adjoint to the gradient of the array, and what is
// written takes its own from there.
#include "ir/atomic.h"
#include "prims/adjoints.h"

namespace tile {
namespace {

std::vector<Value*> joined(std::vector<Value*> first, const std::vector<Value*>& operands, size_t from) {
  first.insert(first.end(), operands.begin() + static_cast<ptrdiff_t>(from), operands.end());
  return first;
}

// Returns the attributes of a store, or a load of a shape and dtype, at the address of `op`.
Attributes storing(const Op& op) {
  Attributes attributes;
  for (const char* name : {"steps", "axis", "in_bounds"})
    if (const Attribute* value = op.attributes.find(name)) attributes.set(name, *value);
  return attributes;
}
Attributes loading(const Op& op, const Shape& shape, DType dtype) {
  Attributes attributes = storing(op);
  attributes.set("shape", shape);
  attributes.set("pad", Constant::of(dtype, 0).attribute());
  return attributes;
}

// Adds a part to elements that other lanes of the tile may name, too.
void add_elements(Adjoints& adjoints, Value* array, Value* part, const std::vector<Value*>& address) {
  adjoints.build.create(primitive("atomic_add"), joined({array, part}, address, 0));
}

// Returns the index tile of each axis of a row access, and the mask of nothing: elements outside are dropped.
std::vector<Value*> row_elements(Adjoints& adjoints, size_t rows, const Shape& shape) {
  const Op& op = adjoints.op;
  const auto along = static_cast<size_t>(op.integer("axis"));
  const auto& steps = op.integers("steps");
  std::vector<Value*> indices;
  size_t next = rows + 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    Value* index;
    if (axis == along) {
      index = adjoints.cast(op.operands[rows], DType::i64);
    } else {
      Value* start = adjoints.cast(op.operands[next++], DType::i64);
      start = adjoints.emit("mul", {start, adjoints.build.constant(DType::i64, steps[axis])});
      index = adjoints.emit("arange", {}, {{"dtype", DType::i64}, {"size", shape[axis]}});
      index = adjoints.emit("add", {adjoints.build.broadcast(start, {shape[axis]}), index});
    }
    Shape line(shape.size(), 1);
    line[axis] = shape[axis];
    indices.push_back(adjoints.build.broadcast(adjoints.reshaped(index, line), shape));
  }
  return indices;
}

}  // namespace

void adjoint_of_load(Adjoints& adjoints) {
  Value* g = adjoints.of();
  const GradientMemory memory = g ? adjoints.read_gradient() : GradientMemory{};
  if (!memory.array) return;
  const Op& op = adjoints.op;
  Value* part = adjoints.cast(g, memory.array->type.dtype);
  if (memory.how == GradientMemory::add) {
    Value* before = adjoints.emit("load", joined({memory.array}, op.operands, 1),
                                  loading(op, g->type.shape, part->type.dtype));
    part = adjoints.emit("add", {before, part});
  }
  adjoints.build.create(primitive(memory.how == GradientMemory::atomic ? "add_tile" : "store"),
                        joined({memory.array, part}, op.operands, 1), storing(op));
}

void adjoint_of_store(Adjoints& adjoints) {
  Value* from = adjoints.wants(1) ? adjoints.written_gradient() : nullptr;
  if (!from) return;
  const Op& op = adjoints.op;
  adjoints.add(1, adjoints.emit("load", joined({from}, op.operands, 2),
                                loading(op, op.type(1).shape, from->type.dtype)));
}

void adjoint_of_gather(Adjoints& adjoints) {
  Value* g = adjoints.of();
  const GradientMemory memory = g ? adjoints.read_gradient() : GradientMemory{};
  if (!memory.array) return;
  const std::vector<Value*> address(adjoints.op.operands.begin() + 1, adjoints.op.operands.end());
  Value* part = adjoints.cast(g, memory.array->type.dtype);
  if (memory.how == GradientMemory::atomic) return add_elements(adjoints, memory.array, part, address);
  if (memory.how == GradientMemory::add) {
    Value* before = adjoints.emit("gather", joined({memory.array}, address, 0),
                                  {{"pad", Constant::of(part->type.dtype, 0).attribute()}});
    part = adjoints.emit("add", {before, part});
  }
  adjoints.build.create(primitive("scatter"), joined({memory.array, part}, address, 0));
}

void adjoint_of_scatter(Adjoints& adjoints) {
  Value* from = adjoints.wants(1) ? adjoints.written_gradient() : nullptr;
  if (!from) return;
  adjoints.add(1, adjoints.emit("gather", joined({from}, adjoints.op.operands, 2),
                                {{"pad", Constant::of(from->type.dtype, 0).attribute()}}));
}

void adjoint_of_gather_rows(Adjoints& adjoints) {
  Value* g = adjoints.of();
  const GradientMemory memory = g ? adjoints.read_gradient() : GradientMemory{};
  if (!memory.array) return;
  add_elements(adjoints, memory.array, adjoints.cast(g, memory.array->type.dtype),
               row_elements(adjoints, 1, g->type.shape));
}

void adjoint_of_scatter_rows(Adjoints& adjoints) {
  Value* from = adjoints.wants(1) ? adjoints.written_gradient() : nullptr;
  if (!from) return;
  const Op& op = adjoints.op;
  adjoints.add(1, adjoints.emit("gather_rows", joined({from}, op.operands, 2),
                                loading(op, op.type(1).shape, from->type.dtype)));
}

void adjoint_of_atomic_add(Adjoints& adjoints) {
  if (is_flat(adjoints.op))
    fail_without_derivative(adjoints.op,
                            "offsets do not say which element of the gradient they mean; use indices");
  adjoint_of_scatter(adjoints);
}

}  // namespace tile
