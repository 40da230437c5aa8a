// gather_rows and scatter_rows: an index tile along one axis, and tiles of constant lengths along the others.
#include "prims/rows.h"

#include "dsl/tracer.h"
#include "ir/walk.h"
#include "prims/adjoints.h"
#include "prims/axes.h"
#include "prims/padding.h"
#include "prims/tangents.h"

namespace tile {
namespace {

// Operands: array, [value], rows, and an index for each of the other axes.
void check_rows(const Op& op, size_t rows, const Shape& shape) {
  const Type& array = op.type(0);
  const auto rank = static_cast<size_t>(array.is_array() ? array.array_rank : 0);
  const int64_t axis = op.integer("axis");
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    fail(op, ErrorKind::value, "axis ", axis, " is out of range for ", array);
  if (op.operands.size() <= rows || op.type(rows).rank() != 1 || !is_integer(op.type(rows).dtype))
    fail(op, ErrorKind::type, "rows must be an integer tile of one axis, got ",
         op.operands.size() <= rows ? op.type(0) : op.type(rows));
  if (op.operands.size() - rows != rank)
    fail(op, ErrorKind::value, op.operands.size() - rows - 1, " starts for ", array,
         "; give one for each axis except that of the rows");
  for (size_t i = rows + 1; i < op.operands.size(); ++i)
    if (!op.type(i).is_scalar() || !is_integer(op.type(i).dtype))
      fail(op, ErrorKind::type, "starts must be integer scalars, got ", op.type(i));
  if (shape.size() != rank || op.integers("steps").size() != rank ||
      shape[static_cast<size_t>(axis)] != op.type(rows).shape[0])
    fail(op, ErrorKind::value, "a tile of shape ", shape, " does not fit rows ", op.type(rows), " of ", array,
         "; its extent along axis ", axis, " is the number of rows");
}
std::vector<Type> infer_gather_rows(const Op& op) {
  const Shape& shape = op.integers("shape");
  check_rows(op, 1, shape);
  require_pad(op);
  return {Type::tile(op.type(0).dtype, shape)};
}
std::vector<Type> infer_scatter_rows(const Op& op) {
  if (op.operands.size() < 2 || op.type(1).dtype != op.type(0).dtype)
    fail(op, ErrorKind::type, "cannot write ", op.type(1), " to rows of ", op.type(0),
         "; cast with astype()");
  check_rows(op, 2, op.type(1).shape);
  return {};
}

const Register gather_rows_{
    {.name = "gather_rows",
     .traits = {.reads = true, .picks = true},
     .tangent = linear_tangent,
     .infer = infer_gather_rows,
     .doc = "Loads rows of an array at an index tile along one axis, with constant lengths "
            "along the others; elements outside are `pad`.\n"
            "operands: array, rows: an integer tile of one axis, an integer scalar for each "
            "other axis, which counts steps.\n"
            "{axis}: the axis along which rows are indexed.\n"
            "{shape}: extents of the tile; along `axis` the number of rows.\n"
            "{steps}: the unit of each scalar, one entry per axis; 1 along `axis`.\n"
            "{pad}: the value of elements outside; 0 for integers and bool.\n"
            "result: a tile of the array's dtype and `shape`.\n"
            "GPU: elements along the last axis are read as vectors if the steps guarantee "
            "aligned starts.\n"
            "C++: gather_rows.",
     .adjoint = adjoint_of_gather_rows}};
const Register scatter_rows_{
    {.name = "scatter_rows",
     .traits = {.writes = true, .picks = true},
     .tangent = store_tangent,
     .infer = infer_scatter_rows,
     .doc = "Writes rows of an array at an index tile along one axis, with constant lengths "
            "along the others; elements outside are dropped.\n"
            "operands: array, a tile of its dtype, rows: an integer tile of one axis, an "
            "integer scalar for each other axis, which counts steps.\n"
            "{axis}: the axis along which rows are indexed.\n"
            "{steps}: the unit of each scalar, one entry per axis; 1 along `axis`.\n"
            "With two equal rows the elements of either are stored.\n"
            "C++: scatter_rows.",
     .adjoint = adjoint_of_scatter_rows}};

// A start as index * step: the step tells a target which starts are aligned to vectors.
struct Start {
  Value* index;
  int64_t step;
};
Start start_of(const char* operation, const Operand& start, int64_t length) {
  const auto number = [&](long value) { return Operand(value, start.location).any(); };
  if (start.literal && start.literal->dtype == DType::i64) {
    const int64_t at = start.literal->integer;
    return at == 0 ? Start{number(0), length} : at < 0 ? Start{number(-1), -at} : Start{number(1), at};
  }
  Value* value = start.any();
  if (!value->type.is_scalar() || !is_integer(value->type.dtype))
    fail(start.location, ErrorKind::type, operation, ": a start is ", value->type,
         "; it must be an integer scalar");
  const Op* made = value->definition;
  for (size_t i = 0; made && made->is("mul") && i < 2; ++i)
    if (const auto factor = constant_of(made->operands[i]); factor && factor->integer > 0)
      return {made->operands[1 - i], factor->integer};
  return {value, 1};
}

struct RowAccess {
  std::vector<Value*> operands;  // rows and indices
  Shape shape, steps;            // lengths and steps along each axis
  int64_t axis;
};
// `lengths` are along the other axes, in their order.
RowAccess access_of(const char* operation, Array array, int axis, const Operand& rows,
                    const std::vector<Operand>& start, Shape lengths, const Location& at) {
  Tracer::current(at).check_visible(array.value(), "this Array view", at);
  const Type& type = array.value()->type;
  RowAccess access{{rows.any()}, {}, {}, normal_axis(operation, axis, type, at, type.array_rank)};
  const Type& index = access.operands[0]->type;
  if (index.rank() != 1 || !is_integer(index.dtype))
    fail(rows.location, ErrorKind::type, operation, ": rows must be an integer tile of one axis, got ",
         index);
  const auto others = static_cast<size_t>(type.array_rank - 1);
  if (start.size() != others || lengths.size() != others)
    fail(at, ErrorKind::value, operation, ": ", start.size(), " starts and ", lengths.size(), " lengths for ",
         type, "; give one of each for each axis except that of the rows");
  for (size_t i = 0; i < others; ++i) {
    if (lengths[i] < 1) fail(at, ErrorKind::value, operation, ": lengths ", lengths, " must be at least 1");
    const Start each = start_of(operation, start[i], lengths[i]);
    access.operands.push_back(each.index);
    access.steps.push_back(each.step);
  }
  access.steps.insert(access.steps.begin() + access.axis, 1);
  access.shape = std::move(lengths);
  access.shape.insert(access.shape.begin() + access.axis, index.shape[0]);
  return access;
}

}  // namespace

Tile gather_rows(Array array, int axis, const Operand& rows, const std::vector<Operand>& start,
                 const Shape& lengths, double pad, Location location) {
  RowAccess access = access_of("gather_rows", array, axis, rows, start, lengths, location);
  access.operands.insert(access.operands.begin(), array.value());
  return Tile(emit(gather_rows_, std::move(access.operands),
                   {{"axis", access.axis},
                    {"pad", padding_of("gather_rows", array.dtype(), pad, location)},
                    {"shape", access.shape},
                    {"steps", access.steps}},
                   location));
}

void scatter_rows(Array array, int axis, const Operand& rows, const std::vector<Operand>& start,
                  const Operand& value) {
  const Location& at = value.location;
  const int rank = array.rank();
  if (value.value && value.value->type.rank() != rank)
    fail(at, ErrorKind::value, "scatter_rows: ", value.value->type, " for rows of ", array.value()->type,
         "; give a tile of as many axes");
  if (!value.value) fail(at, ErrorKind::type, "scatter_rows: got a literal; pass a tile");
  Shape lengths = value.value->type.shape;
  lengths.erase(lengths.begin() + normal_axis("scatter_rows", axis, array.value()->type, at, rank));
  RowAccess access = access_of("scatter_rows", array, axis, rows, start, std::move(lengths), at);
  Value* tile = Tile(value.value).astype(array.dtype(), at).value(at);
  access.operands.insert(access.operands.begin(), {array.value(), tile});
  emit(scatter_rows_, std::move(access.operands), {{"axis", access.axis}, {"steps", access.steps}}, at);
}

}  // namespace tile
