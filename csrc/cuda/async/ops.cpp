// Types of the asynchronous ops.
#include "cuda/async/ops.h"

#include "ir/op.h"

namespace tile::cuda {
namespace {

std::vector<Type> no_results(const Op&) { return {}; }

std::vector<Type> infer_roles(const Op& op) {
  for (const auto& region : op.regions)
    if (!region->arguments.empty() || !region->terminator() || !region->terminator()->operands.empty())
      fail(op, ErrorKind::value, "its regions take and give nothing");
  return {};
}

// The indices begin at operand `first`. The start and the stop of a slice follow.
std::vector<Type> check_indices(const Op& op, size_t first) {
  const Type& array = op.type(0);
  const size_t of_slice = op.has("sliced") ? 2 : 0;
  if (!array.is_array() || op.operands.size() != static_cast<size_t>(array.array_rank) + first + of_slice ||
      op.integers("steps").size() != static_cast<size_t>(array.array_rank))
    fail(op, ErrorKind::value, "takes an array, and an index and a step for each of its axes",
         of_slice ? ", then the start and the stop of a slice" : "");
  if (const int64_t axis = op.integer_or("sliced", 0); axis < 0 || axis >= array.array_rank)
    fail(op, ErrorKind::value, "slices axis ", axis, " of ", array);
  for (size_t i = first; i < op.operands.size(); ++i)
    if (!op.type(i).is_scalar() || !is_integer(op.type(i).dtype))
      fail(op, ErrorKind::type, "index ", i - first, " is ", op.type(i), "; indices are integer scalars");
  return {};
}
std::vector<Type> infer_ring_load(const Op& op) { return check_indices(op, 1); }
std::vector<Type> infer_panel_store(const Op& op) {
  if (op.type(1).rank() != 2 || op.type(1).dtype != op.type(0).dtype)
    fail(op, ErrorKind::type, "cannot store ", op.type(1), " to ", op.type(0));
  return check_indices(op, 2);
}

std::vector<Type> infer_from_attributes(const Op& op) {
  return {Type::tile(op.dtype("dtype"), op.integers("shape"))};
}

// x is [m, k], or [k, m] with {left_transposed}; y is [k, n], or [n, k] with {right_transposed}.
std::vector<Type> infer_mma_issue(const Op& op) {
  if (op.operands.size() != 4 && op.operands.size() != 5)
    fail(op, ErrorKind::value, "takes two operands, sums, add, and what registers hold of x");
  const Type &x = op.type(0), &y = op.type(1), &acc = op.type(2);
  const auto left = static_cast<size_t>(op.integer("left_transposed")),
             right = static_cast<size_t>(op.integer("right_transposed"));
  if (!op.type(3).is_scalar() || op.type(3).dtype != DType::boolean)
    fail(op, ErrorKind::type, "add is ", op.type(3), "; it is a bool scalar");
  if (x.rank() != 2 || y.rank() != 2 || x.shape[1 - left] != y.shape[right] ||
      acc.shape != Shape{x.shape[left], y.shape[1 - right]})
    fail(op, ErrorKind::value, "cannot multiply ", x, " by ", y, " onto ", acc);
  if (op.operands.size() == 5 && (left || op.type(4).rank() != 2 || op.type(4).dtype != x.dtype ||
                                  op.type(4).shape[0] != x.shape[0] || op.type(4).shape[1] >= x.shape[1]))
    fail(op, ErrorKind::value, "holds ", op.type(4), ", which are not the first columns of ", x);
  return {acc};
}

std::vector<Type> infer_block_loop(const Op& op) {
  const Block& body = op.region();
  const Op* end = body.terminator();
  const auto is_block = [](const Value* value) {
    return value->type.is_scalar() && value->type.dtype == DType::i32;
  };
  if (!is_block(op.operands[0]) || !is_block(op.operands[1]) || body.arguments.size() != 1 ||
      !is_block(body.arguments[0]) || !end || end->operands.size() != 1 || !is_block(end->operands[0]))
    fail(op, ErrorKind::type, "takes the first block and their number, and yields the next one, all i32");
  return {};
}
std::vector<Type> infer_block(const Op&) { return {Type::tile(DType::i32)}; }

std::vector<Type> infer_condition(const Op& op) {
  if (!op.type(0).is_scalar() || op.type(0).dtype != DType::boolean)
    fail(op, ErrorKind::type, "the condition is ", op.type(0), "; it is a bool scalar");
  return {};
}

std::vector<Type> infer_put_shared(const Op& op) { return {op.type(0)}; }
std::vector<Type> infer_zero_unless(const Op& op) { return {op.type(1)}; }
std::vector<Type> infer_mma_await(const Op& op) { return {op.type(0)}; }

Primitive target_op(std::string_view name, int operands, std::vector<Type> (*infer)(const Op&)) {
  return {.name = name, .operands = operands, .traits = {.effect = true}, .infer = infer, .target = true};
}
Primitive roles_op() {
  Primitive op = target_op("roles", 0, infer_roles);
  op.regions = 3;
  return op;
}
Primitive block_loop_op() {
  Primitive op = target_op("block_loop", 2, infer_block_loop);
  op.regions = 1;
  return op;
}
// Its memory is read by the copy unit, which no other access of this kernel may overlap.
Primitive ring_load_op() {
  Primitive op = target_op("ring_load", -1, infer_ring_load);
  op.views = true;
  return op;
}

Primitive panel_store_op(std::string_view name) {
  Primitive op = target_op(name, -1, infer_panel_store);
  op.traits.writes = true;
  return op;
}

}  // namespace

bool is_panel_store(const Op& op) { return op.is("store_async") || op.is("store_rows"); }

const Register roles{roles_op()};
const Register ring_fill{target_op("ring_fill", 0, no_results)};
const Register ring_load{ring_load_op()};
const Register ring_wait{target_op("ring_wait", 0, no_results)};
const Register ring_tile{target_op("ring_tile", 0, infer_from_attributes)};
const Register ring_left{target_op("ring_left", 0, infer_from_attributes)};
const Register ring_read{target_op("ring_read", 0, infer_from_attributes)};
const Register ring_row{target_op("ring_row", 0, infer_from_attributes)};
const Register ring_free{target_op("ring_free", 0, no_results)};
const Register ring_drain{target_op("ring_drain", 0, no_results)};
const Register ring_release{target_op("ring_release", 0, no_results)};
const Register ring_next{target_op("ring_next", 0, no_results)};
const Register put_shared{target_op("put_shared", 1, infer_put_shared)};
const Register undefined{target_op("undefined", 0, infer_from_attributes)};
const Register mma_issue{target_op("mma_issue", -1, infer_mma_issue)};
const Register mma_retire{target_op("mma_retire", 0, no_results)};
const Register mma_await{target_op("mma_await", 1, infer_mma_await)};
const Register zero_unless{target_op("zero_unless", 2, infer_zero_unless)};
const Register store_async{panel_store_op("store_async")};
const Register store_rows{panel_store_op("store_rows")};
const Register store_wait{target_op("store_wait", 0, no_results)};
const Register block_loop{block_loop_op()};
const Register queue_draw{target_op("queue_draw", 1, infer_block)};
const Register queue_put{target_op("queue_put", 1, no_results)};
const Register queue_take{target_op("queue_take", 0, infer_block)};
const Register queue_close{target_op("queue_close", 0, no_results)};
const Register leave_unless{target_op("leave_unless", 1, infer_condition)};
const Register stores_if{target_op("stores_if", 1, infer_condition)};

Value* read_stage(Builder& build, const Register& read, int64_t ring, const Type& type) {
  const Attributes attribute = ring_attribute(ring);
  build.create(ring_wait, {}, attribute);
  Value* value = build.emit(read, {}, {{"dtype", type.dtype}, {"ring", ring}, {"shape", type.shape}});
  build.create(ring_release, {}, attribute);
  build.create(ring_next, {}, attribute);
  return value;
}

}  // namespace tile::cuda
