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

class Builder;
struct Op;
struct Value;

// The properties of a primitive that passes ask for; they never ask for names.
struct Traits {
  bool elementwise = false;  // result[i] depends on operands[i] only
  bool commutative = false;  // in its first two operands
  bool reads = false;        // memory of the array it names
  bool writes = false;       // memory of the array it names
  bool barrier = false;      // no memory access may move across it
  bool effect = false;       // other than on memory: print, assert; keeps its order among writes and its like
  bool terminator = false;   // ends a region
  bool impure = false;       // two equal ops may differ: never merged
  bool acts() const { return writes || barrier || effect; }  // also where nobody uses a result
  bool pure() const { return !reads && !writes && !barrier && !effect && !terminator && !impure; }
};

// A row of the generated test: a torch expression over x, y, z, and the values operands are drawn from.
struct TestRow {
  std::string_view reference;  // "torch.exp(x)"; empty: the family's own test file covers it
  double low = -4, high = 4;   // range of random floating operands
  double tolerance = 4;        // units in the last place of the result dtype; 0 is exact
};

struct Primitive {
  std::string_view name;
  int operands = -1;  // -1: any number
  int regions = 0;
  bool views = false;  // takes an array, of which it touches no memory
  Traits traits;
  DTypeSet dtypes = dtypes::any;  // of the first tile operand, or of the result where there is none
  std::vector<Type> (*infer)(const Op& op) = nullptr;  // result types; throws a located error
  // Derived primitives: emit core ops through the builder and return one value a result.
  std::vector<Value*> (*expand)(Builder& build, const Op& op) = nullptr;
  // Exact scalar evaluation, where every target agrees on the bits.
  std::optional<Constant> (*fold)(std::span<const Constant> operands, DType result) = nullptr;
  std::string_view doc;
  TestRow test;

  bool takes_array() const { return views || traits.reads || traits.writes; }  // as its first operand alone
  bool core() const { return expand == nullptr; }
};

// Registers at static initialisation: `static const Register exp_{{.name = "exp", …}};`
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
std::vector<const Primitive*> all_primitives();          // by name

}  // namespace tile
