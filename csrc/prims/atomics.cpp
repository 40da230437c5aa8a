// Registers the rows of ir/atomics.def: type rule and language functions.
#include "prims/atomics.h"

#include "prims/adjoints.h"
#include "prims/elements.h"
#include "prims/elementwise.h"
#include "prims/shape.h"
#include "prims/tangents.h"

namespace tile {
namespace {

std::vector<Type> infer_atomic(const Op& op) {
  const AtomicKind& kind = atomic_kind(op);
  const auto values = static_cast<size_t>(kind.values);
  const Type element = Type::tile(op.type(0).dtype, check_element_address(op, 1 + values));
  for (size_t i = 1; i <= values; ++i)
    if (op.type(i) != element)
      fail(op, ErrorKind::type, "cannot write ", op.type(i), " to elements ", element.shape, " of ",
           op.type(0));
  const MemoryOrder order = memory_order(op);
  memory_scope(op);
  if ((!kind.values && releases(order)) || (!kind.gives && acquires(order)))
    fail(op, ErrorKind::value, "its order is ", op.text("order"), "; an operation that only ",
         kind.gives ? "reads takes relaxed or acquire" : "writes takes relaxed or release");
  if (!kind.gives) return {};
  return {element};
}

// Between an atomic operation on a number and one on its tangent other blocks may change both, so only those
// whose order does not matter have a rule. The old value of a sum has no tangent.
std::vector<Value*> atomic_tangent(Builder& build, const Op& op, Tangents tangents) {
  const AtomicKind& kind = atomic_kind(op);
  if (kind.values == 0) return linear_tangent(build, op, tangents);
  if (kind.gives && kind.combination != "add") fail_tangent(op);
  store_tangent(build, op, tangents);
  return no_tangent(build, op, tangents);
}

namespace rows {
#define OPERANDS(VALUES) OPERANDS_##VALUES
#define OPERANDS_0 "array, "
#define OPERANDS_1 "array, value of the array's dtype, "
#define OPERANDS_2 "array, expected and desired value of the array's dtype, "
#define RESULT_true "result: the old values, in the array's dtype and the tiles' shape.\n"
#define RESULT_false ""
#define ATOMIC(NAME, VALUES, GIVES, DTYPES, COMBINATION, DOC)                                              \
  const Register NAME##_{                                                                                  \
      {.name = #NAME,                                                                                      \
       .traits = {.reads = true, .writes = true, .picks = true, .barrier = true},                          \
       .tangent = atomic_tangent,                                                                          \
       .dtypes = VALUES ? dtypes::DTYPES : dtypes::any,                                                    \
       .infer = infer_atomic,                                                                              \
       .doc = DOC "\noperands: " OPERANDS(                                                                 \
           VALUES) "an integer tile for each axis, and optionally "                                        \
                   "a bool mask; all tiles of one shape.\n"                                                \
                   "{flat}: 1: one integer tile instead of them, offsets from the array's first element, " \
                   "without bounds and strides.\n"                                                         \
                   "{order}: relaxed (the default of the IR), acquire, release or acq_rel.\n"              \
                   "{scope}: block, device (the default) or system.\n"                                     \
                   "Outside of the array and where the mask is false nothing is done, and the result is "  \
                   "0, or for atomic_cas the expected value.\n" RESULT_##GIVES                             \
       "GPU: without an instruction, as for 1- and 2-byte elements and max and min of floats, a loop of "  \
       "compare-and-exchange on a word is used; sums of f16, and of bf16 from sm_90 on, only need it if "  \
       "the old value is used.\n"                                                                          \
       "C++: " #NAME ", " #NAME "_offset.",                                                                \
       .adjoint = std::string_view(COMBINATION) == "add" ? adjoint_of_atomic_add : nullptr}};
#include "ir/atomics.def"
}  // namespace rows

// Returns an operand in the array's dtype. Operands whose bits are used must have that dtype already, because
// a cast would change them: those of and, or and xor, and the expected value of cas.
Value* changed_value(const Primitive& primitive, Array array, const Operand& value, size_t operand) {
  const std::string_view name = primitive.name;
  const AtomicKind& kind = *find_atomic(name);
  const bool compares = kind.compares() && operand == 0, bits = compares || kind.is_bitwise();
  if (bits && !value.literal && value.value->type.dtype != array.dtype())
    fail(value.location, ErrorKind::type, name, ": the ", compares ? "expected value" : "value", " is ",
         value.value->type, ", the array ", array.value()->type,
         "; its bits are used, so cast it with astype()");
  return written_value(name.data(), array, value);
}

enum class Addressing { elements, flat };

Value* access(const Primitive& primitive, Array array, Addressing addressing,
              const std::vector<Operand>& index, const std::vector<Operand>& values, const Atomic& how,
              const Location& at) {
  const char* operation = primitive.name.data();
  std::vector<Value*> written;
  for (const Operand& value : values)
    written.push_back(changed_value(primitive, array, value, written.size()));
  Value* mask = how.mask ? how.mask->as(DType::boolean, operation) : nullptr;
  Attributes attributes;
  if (how.order != MemoryOrder::relaxed)
    attributes.set("order", std::string(memory_orders[static_cast<size_t>(how.order)]));
  if (how.scope != MemoryScope::device)
    attributes.set("scope", std::string(memory_scopes[static_cast<size_t>(how.scope)]));
  const bool flat = addressing == Addressing::flat;
  if (flat) attributes.set("flat", int64_t{1});
  return emit(primitive, element_operands(operation, array, std::move(written), index, mask, at, flat),
              attributes, at);
}

}  // namespace

// Defines each function for index tiles and for offsets.
#define CHANGE(NAME)                                                                                      \
  Tile NAME(Array array, std::initializer_list<Operand> index, Operand value, Atomic how) {               \
    return Tile(access(rows::NAME##_, array, Addressing::elements, index, {value}, how, value.location)); \
  }                                                                                                       \
  Tile NAME##_offset(Array array, Operand offset, Operand value, Atomic how) {                            \
    return Tile(access(rows::NAME##_, array, Addressing::flat, {offset}, {value}, how, value.location));  \
  }
CHANGE(atomic_add)
CHANGE(atomic_max)
CHANGE(atomic_min)
CHANGE(atomic_and)
CHANGE(atomic_or)
CHANGE(atomic_xor)
CHANGE(atomic_xchg)
#undef CHANGE

Tile atomic_add(Array array, const std::vector<Operand>& index, Operand value, Atomic how) {
  return Tile(access(rows::atomic_add_, array, Addressing::elements, index, {value}, how, value.location));
}
Tile atomic_load(Array array, std::initializer_list<Operand> index, Atomic how, Location location) {
  return Tile(access(rows::atomic_load_, array, Addressing::elements, index, {}, how, location));
}
Tile atomic_load_offset(Array array, Operand offset, Atomic how, Location location) {
  return Tile(access(rows::atomic_load_, array, Addressing::flat, {offset}, {}, how, location));
}
void atomic_store(Array array, std::initializer_list<Operand> index, Operand value, Atomic how) {
  access(rows::atomic_store_, array, Addressing::elements, index, {value}, how, value.location);
}
void atomic_store_offset(Array array, Operand offset, Operand value, Atomic how) {
  access(rows::atomic_store_, array, Addressing::flat, {offset}, {value}, how, value.location);
}
Tile atomic_cas(Array array, std::initializer_list<Operand> index, Operand expected, Operand desired,
                Atomic how) {
  return Tile(access(rows::atomic_cas_, array, Addressing::elements, index, {expected, desired}, how,
                     desired.location));
}
Tile atomic_cas_offset(Array array, Operand offset, Operand expected, Operand desired, Atomic how) {
  return Tile(access(rows::atomic_cas_, array, Addressing::flat, {offset}, {expected, desired}, how,
                     desired.location));
}

// Changes a tile's elements one by one: only additions are done for adjacent elements at once.
void View::change(const Primitive& primitive, std::initializer_list<Operand> index,
                  const Operand& tile) const {
  const Location& at = tile.location;
  const char* operation = primitive.name.data();
  const std::vector<Value*> starts = address(operation, index, at);  // after the array
  std::vector<Operand> elements;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    Tile start = Tile(starts[axis + 1]).astype(DType::i64, at) * static_cast<long>(steps_[axis]);
    Shape along(shape_.size(), 1);
    along[axis] = shape_[axis];
    elements.emplace_back(
        (start + arange(shape_[axis], DType::i64, at)).reshape(along, at).broadcast_to(shape_, at), at);
  }
  Value* value = broadcast_to(operation, changed_value(primitive, array_, tile, 0), shape_, at);
  access(primitive, array_, Addressing::elements, elements, {Operand(value, at)},
         {.order = MemoryOrder::relaxed}, at);
}

#define CHANGE(NAME)                                                          \
  void View::NAME(std::initializer_list<Operand> index, Operand tile) const { \
    change(rows::NAME##_, index, tile);                                       \
  }
CHANGE(atomic_max)
CHANGE(atomic_min)
CHANGE(atomic_and)
CHANGE(atomic_or)
CHANGE(atomic_xor)
#undef CHANGE

}  // namespace tile
