// assert: a condition that must hold while the kernel runs.
#include "prims/assert.h"

namespace tile {
namespace {

std::vector<Type> infer_assert(const Op& op) {
  if (op.type(0).dtype != DType::boolean)
    fail(op, ErrorKind::type, "takes a bool tile, got ", op.type(0), "; compare it with something");
  op.text("message");
  return {};
}

const Register assert_op{
    {.name = "assert",
     .operands = 1,
     .traits = {.effect = true},
     .dtypes = dtypes::boolean,
     .infer = infer_assert,
     .doc = "Ends the block with an error if an element is false.\n"
            "operands: condition, bool of any shape.\n"
            "{message}: the text of the error, constant.\n"
            "Later stores of the block are not executed; other blocks continue. On the CPU the "
            "launch raises the error; on a GPU the next launch of this library there, or "
            "tile_ops.synchronize(), does.\n"
            "C++: assert_."}};

}  // namespace

void assert_(Operand condition, std::string_view message) {
  emit(assert_op, {condition.any()}, {{"message", std::string(message)}}, condition.location);
}

}  // namespace tile
