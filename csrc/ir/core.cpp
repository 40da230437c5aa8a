// The primitives that the IR itself needs: constants, broadcast, structured control flow.
#include "ir/adjoints.h"
#include "ir/build.h"
#include "ir/op.h"

namespace tile {
namespace {

std::vector<Type> infer_constant(const Op& op) {
  const DType dtype = op.dtype("dtype");
  require_number(op, "value", dtype);
  return {Type::tile(dtype)};
}

std::vector<Type> infer_broadcast(const Op& op) {
  const Shape &from = op.type(0).shape, &to = op.integers("shape");
  bool fits = from.empty() || from.size() == to.size();
  for (size_t i = 0; fits && i < from.size(); ++i) fits = from[i] == to[i] || from[i] == 1;
  if (!fits)
    fail(op, ErrorKind::value, op.type(0), " does not broadcast to ", to,
         "; ranks must be equal (or 0) and extents equal or 1");
  return {Type::tile(op.type(0).dtype, to)};
}

// The adjoint of what was repeated is the sum of the repetitions' adjoints.
void adjoint_of_broadcast(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const Shape from = adjoints.op.type(0).shape, to = g->type.shape;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < to.size(); ++i)
    if (from.empty() || from[i] != to[i]) axes.push_back(static_cast<int64_t>(i));
  if (!axes.empty()) g = adjoints.emit("reduce_sum", {g}, {{"axes", axes}});
  adjoints.add(0, adjoints.reshaped(g, from));
}

std::vector<Type> types_of(const std::vector<Value*>& values, size_t from = 0) {
  std::vector<Type> types;
  for (size_t i = from; i < values.size(); ++i) types.push_back(values[i]->type);
  return types;
}

void expect_types(const Op& op, const Op& terminator, const std::vector<Type>& expected) {
  if (types_of(terminator.operands) != expected)
    fail(op, ErrorKind::type, "its ", terminator.name(), " gives (", join(types_of(terminator.operands)),
         ") but (", join(expected), ") is carried");
}

const Op& terminator_of(const Op& op, const Block& block) {
  if (!block.terminator()) fail(op, ErrorKind::value, "a region must end in yield, break or continue");
  return *block.terminator();
}

// Operands: low, high, step, initial values…; region: (index, carried…), which ends with yield.
std::vector<Type> infer_for(const Op& op) {
  if (op.operands.size() < 3) fail(op, ErrorKind::value, "takes low, high, step and initial values");
  const Type& index = op.type(0);
  if (!index.is_scalar() || !is_integer(index.dtype) || op.type(1) != index || op.type(2) != index)
    fail(op, ErrorKind::type, "its bounds must be integer scalars of one dtype, got ", op.type(0), ", ",
         op.type(1), " and ", op.type(2));
  std::vector<Type> carried = types_of(op.operands, 3);
  std::vector<Type> arguments = carried;
  arguments.insert(arguments.begin(), index);
  if (types_of(op.region().arguments) != arguments)
    fail(op, ErrorKind::type, "its region takes (", join(types_of(op.region().arguments)), ") but is given (",
         join(arguments), ")");
  expect_types(op, terminator_of(op, op.region()), carried);
  return carried;
}

// Operands: initial values…; region: (carried…), which ends with continue or break. Nested ifs may contain
// these as well.
std::vector<Type> infer_loop(const Op& op) {
  std::vector<Type> carried = types_of(op.operands);
  if (types_of(op.region().arguments) != carried)
    fail(op, ErrorKind::type, "its region takes (", join(types_of(op.region().arguments)), ") but is given (",
         join(carried), ")");
  const Op& end = terminator_of(op, op.region());
  if (end.is("yield")) fail(op, ErrorKind::value, "its region must end in continue or break");
  expect_types(op, end, carried);
  return carried;
}

std::vector<Type> infer_if(const Op& op) {
  if (!op.type(0).is_scalar() || op.type(0).dtype != DType::boolean)
    fail(op, ErrorKind::type, "its condition must be a bool scalar, got ", op.type(0));
  for (const auto& region : op.regions)
    if (!region->arguments.empty())
      fail(op, ErrorKind::value, "its region takes (", join(types_of(region->arguments)),
           ") but is given nothing; remove them");
  // A branch that leaves the loop yields no values, so the other branch determines the types.
  const Op *first = &terminator_of(op, op.region(0)), *second = &terminator_of(op, op.region(1));
  if (!first->is("yield")) std::swap(first, second);
  if (!first->is("yield")) return {};
  std::vector<Type> types = types_of(first->operands);
  if (second->is("yield")) expect_types(op, *second, types);
  return types;
}

std::vector<Type> infer_nothing(const Op&) { return {}; }

std::vector<Value*> broadcast_tangent(Builder& build, const Op& op, std::span<Value* const> tangents) {
  return {build.broadcast(tangents[0], op.integers("shape"))};
}

const Register constant_{
    {.name = "constant",
     .operands = 0,
     .infer = infer_constant,
     .doc = "A compile-time scalar.\n"
            "operands: none.\n"
            "{dtype}: of the result.\n"
            "{value}: a number that the dtype can represent, for floats after rounding.\n"
            "result: a scalar.\n"
            "The language creates one for each literal that is combined with a tile, in that "
            "tile's dtype.\n"
            "C++: full, zeros, ones."}};
const Register broadcast_{{.name = "broadcast",
                           .operands = 1,
                           .tangent = broadcast_tangent,
                           .infer = infer_broadcast,
                           .doc = "Repeats a scalar, or the axes of extent 1, to fill a shape.\n"
                                  "operands: x, a tile with as many axes as the shape, or a scalar.\n"
                                  "{shape}: of the result.\n"
                                  "result: x's dtype, `shape`.\n"
                                  "The language prepends axes of extent 1, as NumPy does; binary operations "
                                  "broadcast implicitly.\n"
                                  "C++: Tile::broadcast_to, full.",
                           .adjoint = adjoint_of_broadcast}};
const Register for_{{.name = "for",
                     .regions = 1,
                     .infer = infer_for,
                     .doc =
                         "Counted loop over low <= index < high with carried values; step is positive.\n"
                         "operands: low, high, step: integer scalars of one dtype; initial carried values.\n"
                         "result: the carried values after the last iteration; the initial values if there "
                         "is no iteration.\n"
                         "Its region takes the index and the carried values and ends with `yield`, "
                         "`continue` or `break` of the next values. A step below 1 is not checked at run "
                         "time.\n"
                         "C++: range."}};
const Register loop_{{.name = "loop",
                      .regions = 1,
                      .infer = infer_loop,
                      .doc = "A loop without bounds with carried values; `break` gives its results.\n"
                             "operands: initial carried values.\n"
                             "result: the operands of `break`.\n"
                             "Its region takes the carried values and ends with `continue` or `break`.\n"
                             "C++: while_loop."}};
const Register if_{{.name = "if",
                    .operands = 1,
                    .regions = 2,
                    .infer = infer_if,
                    .doc = "Runs one of two regions; each yields the results.\n"
                           "operands: condition, a bool scalar.\n"
                           "result: the values that the region yields; the types of both must be equal. A "
                           "region that ends with `break` or `continue` yields nothing.\n"
                           "C++: when."}};
const Register yield_{{.name = "yield",
                       .traits = {.terminator = true},
                       .infer = infer_nothing,
                       .doc = "Ends a region with its values.\n"
                              "operands: the values, with the types that the enclosing op expects.\n"
                              "The language adds it at the end of a body.\n"
                              "C++: range, when."}};
const Register break_{{.name = "break",
                       .traits = {.terminator = true},
                       .infer = infer_nothing,
                       .doc = "Leaves the innermost loop with its results.\n"
                              "operands: the loop's results.\n"
                              "C++: break_loop."}};
const Register continue_{{.name = "continue",
                          .traits = {.terminator = true},
                          .infer = infer_nothing,
                          .doc = "Begins the next iteration of the innermost loop with new carried "
                                 "values.\n"
                                 "operands: the carried values.\n"
                                 "C++: continue_loop."}};

}  // namespace
}  // namespace tile
