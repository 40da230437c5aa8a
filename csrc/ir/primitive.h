// The open registry of primitives. A primitive is data: type rule, traits, expansion or folding rule, doc,
// test row.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/constant.h"
#include "ir/dtype.h"
#include "ir/type.h"

namespace tile {

class Adjoints;
class Builder;
struct Op;
struct Value;

// Forward mode. Emits the tangents of an op's results through the builder and returns them. tangents[i] is
// that of operand i: of an array, the array of its tangents. Null stands for zero, in both.
using TangentRule = std::vector<Value*> (*)(Builder& build, const Op& op, std::span<Value* const> tangents);

// The properties of a primitive. Passes check these and never compare names.
struct Traits {
  bool elementwise = false;  // result[i] depends on operands[i] only
  bool commutative = false;  // in its first two operands
  bool reads = false;        // memory of the array operand
  bool writes = false;       // memory of the array operand
  bool picks = false;        // it accesses those elements or rows that other operands name
  bool barrier = false;      // no memory access may move across it
  bool effect = false;       // not on memory (print, assert); ordered with writes and other effects
  bool terminator = false;   // ends a region
  bool impure = false;       // two equal ops may differ, so they are never merged
  bool detaches = false;     // derivatives take its results for constants
  bool acts() const { return writes || barrier || effect; }  // needed even if its results are unused
  bool pure() const { return !reads && !writes && !barrier && !effect && !terminator && !impure; }
};

// A row of the generated test: a torch expression over x, y, z, and the range of its operands.
struct TestRow {
  std::string_view reference;  // "torch.exp(x)"; empty: tested in the family's own file
  double low = -4, high = 4;   // range of random floating operands
  double tolerance = 4;        // units in the last place of the result dtype; 0 is exact
};

struct Primitive {
  std::string_view name;
  int operands = -1;  // -1: any number
  int regions = 0;
  bool views = false;  // takes an array without access to its memory
  Traits traits;
  TangentRule tangent = nullptr;  // called if an operand has a tangent; null: a floating result is an error
  DTypeSet dtypes = dtypes::any;  // of the first tile operand, or of the result if there is none
  std::vector<Type> (*infer)(const Op& op) = nullptr;  // result types; throws a located error
  // For derived primitives: emits core ops through the builder and returns one value per result.
  std::vector<Value*> (*expand)(Builder& build, const Op& op) = nullptr;
  // For constants: exact scalar evaluation, if every target computes the same bits.
  std::optional<Constant> (*fold)(std::span<const Constant> operands, DType result) = nullptr;
  std::string_view doc;
  TestRow test;
  bool target = false;  // created by a target's own passes; no part of the language
  // For derivatives in reverse mode: emits the operands' adjoints from those of the results (ir/adjoints.h).
  void (*adjoint)(Adjoints& adjoints) = nullptr;

  bool takes_array() const { return views || traits.reads || traits.writes; }  // only as its first operand
  bool core() const { return expand == nullptr; }
};

// Registers a primitive during static initialisation: `static const Register exp_{{.name = "exp", …}};`
class Register {
 public:
  explicit Register(const Primitive& primitive);
  const Primitive& operator*() const { return primitive_; }
  operator const Primitive&() const { return primitive_; }

 private:
  Primitive primitive_;
};

const Primitive* find_primitive(std::string_view name);  // null: no such primitive
const Primitive& primitive(std::string_view name);       // error: no such primitive
std::vector<const Primitive*> all_primitives();          // of the language, by name

}  // namespace tile
