// Rules of forward mode that several primitives share; elementwise ones are rows of derivatives.def.
#pragma once
#include "ir/build.h"

namespace tile {

using Tangents = std::span<Value* const>;

// Serves elementwise ops by the rows of derivatives.def; throws a located error if there is none.
std::vector<Value*> elementwise_tangent(Builder& build, const Op& op, Tangents tangents);
// Serves selections: the condition selects among the tangents, too.
std::vector<Value*> where_tangent(Builder& build, const Op& op, Tangents tangents);
// Serves ops that are linear in their first operand, a tile or an array: the same op is applied to the tangent.
// Elements that a load pads have no tangent.
std::vector<Value*> linear_tangent(Builder& build, const Op& op, Tangents tangents);
// Serves ops that are linear in their first two operands together, such as a concatenation.
std::vector<Value*> joint_tangent(Builder& build, const Op& op, Tangents tangents);
// Serves stores: the tangent is stored at the same place of the array of tangents.
std::vector<Value*> store_tangent(Builder& build, const Op& op, Tangents tangents);
// Serves casts: the tangent is rounded to nearest.
std::vector<Value*> cast_tangent(Builder& build, const Op& op, Tangents tangents);
// The result is constant, or piecewise so.
std::vector<Value*> no_tangent(Builder& build, const Op& op, Tangents tangents);
// Throws an error: the result depends on the bits of a number.
std::vector<Value*> refuse_tangent(Builder& build, const Op& op, Tangents tangents);

// Returns the tangent, or zeros of that type.
Value* tangent_or_zero(Builder& build, Value* tangent, const Type& type);
[[noreturn]] void fail_tangent(const Op& op);

}  // namespace tile
