// detach, which expands into its operand.
#include "prims/detach.h"

#include "prims/tangents.h"

namespace tile {
namespace {

std::vector<Type> infer_detach(const Op& op) { return {op.type(0)}; }
std::vector<Value*> expand_detach(Builder&, const Op& op) { return {op.operands[0]}; }

const Register detach_{
    {.name = "detach",
     .operands = 1,
     .traits = {.detaches = true},
     .tangent = no_tangent,
     .infer = infer_detach,
     .expand = expand_detach,
     .doc = "The tile itself, which derivatives take for a constant: its tangent is zero, and it passes no "
            "gradient on.\n"
            "operands: x, a tile.\n"
            "result: x's type.\n"
            "For numbers that the results of a kernel do not depend on but for rounding, such as "
            "the maximum that a softmax subtracts.\n"
            "C++: detach."}};

}  // namespace

Tile detach(const Operand& x) { return Tile(emit(detach_, {x.any()}, {}, x.location)); }

}  // namespace tile
