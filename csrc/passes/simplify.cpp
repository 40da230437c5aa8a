// Identities that hold for every bit pattern, including NaN and -0: a table of rules by primitive.
#include <limits>
#include <unordered_map>

#include "passes/exact_cast.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

// The arguments of a rule: one op, and a builder that inserts before it. A rule returns the value that
// replaces the result, or null.
struct Site {
  Op& op;
  Builder& build;

  Value* in(size_t i) const { return op.operands[i]; }
  const Type& type() const { return op.result()->type; }
  Value* splat(const Constant& value) const { return build.splat(value, type().shape); }
  Value* integer(int64_t value) const { return splat(Constant::of(type().dtype, value)); }
  // Returns the op that defines operand i if its primitive is `name`.
  Op* made_by(size_t i, std::string_view name) const {
    Op* definition = in(i)->definition;
    return definition && definition->is(name) ? definition : nullptr;
  }
  bool is(size_t i, const Constant& value) const {
    auto found = constant_of(in(i));
    return found && *found == value;
  }
  bool is(size_t i, int64_t value) const { return is(i, Constant::of(in(i)->type.dtype, value)); }
};

using Rule = Value* (*)(const Site&);

template <int value>
Value* right_is(const Site& s) {  // x op value = x
  return s.is(1, value) ? s.in(0) : nullptr;
}
template <int value>
Value* absorbs(const Site& s) {  // x op value = value, for integers and bools
  return !is_floating(s.type().dtype) && s.is(1, value) ? s.in(1) : nullptr;
}
Value* add_zero(const Site& s) {  // for floats only adding -0 changes nothing: -0 + 0 is 0
  bool floating = is_floating(s.type().dtype);
  return s.is(1, floating ? Constant::of(s.type().dtype, -0.0) : Constant::of(s.type().dtype, 0)) ? s.in(0)
                                                                                                  : nullptr;
}
Value* all_ones(const Site& s, bool gives_x) {
  Constant ones = Constant::of(s.type().dtype, s.type().dtype == DType::boolean ? 1 : -1);
  return s.is(1, ones) ? s.in(gives_x ? 0 : 1) : nullptr;
}
Value* and_ones(const Site& s) { return all_ones(s, true); }
Value* or_ones(const Site& s) { return all_ones(s, false); }
Value* same(const Site& s) { return s.in(0) == s.in(1) ? s.in(0) : nullptr; }
template <int value>
Value* same_integers(const Site& s) {  // x op x = value
  return s.in(0) == s.in(1) && !is_floating(s.in(0)->type.dtype) ? s.integer(value) : nullptr;
}
Value* mod_one(const Site& s) { return !is_floating(s.type().dtype) && s.is(1, 1) ? s.integer(0) : nullptr; }
Value* divide_one(const Site& s) { return !is_floating(s.type().dtype) ? right_is<1>(s) : nullptr; }

// min(max(x, y), x) = x, for integers.
template <const char* other>
Value* absorption(const Site& s) {
  if (is_floating(s.type().dtype)) return nullptr;
  for (size_t i : {0, 1})
    if (Op* inner = s.made_by(i, other))
      for (Value* x : inner->operands)
        if (x == s.in(1 - i)) return x;
  return nullptr;
}
constexpr char minimum[] = "minimum", maximum[] = "maximum";

template <const char* name>
Value* undone(const Site& s) {  // f(f(x)) = x
  Op* inner = s.made_by(0, name);
  return inner ? inner->operands[0] : nullptr;
}
constexpr char neg[] = "neg", bitwise_not[] = "bitwise_not", logical_not[] = "logical_not";

template <const char* name>
Value* abs_of(const Site& s) {
  Op* inner = s.made_by(0, name);
  return inner ? s.build.emit("abs", {inner->operands[0]}) : nullptr;
}
constexpr char abs_[] = "abs";
Value* abs_twice(const Site& s) { return s.made_by(0, abs_) ? s.in(0) : nullptr; }

Value* add_negated(const Site& s) {  // x + -y = x - y, and -y + x = x - y
  for (size_t i : {1, 0})
    if (Op* inner = s.made_by(i, neg)) return s.build.emit("sub", {s.in(1 - i), inner->operands[0]});
  return nullptr;
}
Value* subtract_negated(const Site& s) {
  Op* inner = s.made_by(1, neg);
  return inner ? s.build.emit("add", {s.in(0), inner->operands[0]}) : nullptr;
}

Value* where_known(const Site& s) { return s.is(0, 1) ? s.in(1) : s.is(0, int64_t{0}) ? s.in(2) : nullptr; }
Value* where_same(const Site& s) { return s.in(1) == s.in(2) ? s.in(1) : nullptr; }
Value* where_not(const Site& s) {
  Op* inner = s.made_by(0, logical_not);
  return inner ? s.build.emit("where", {inner->operands[0], s.in(2), s.in(1)}) : nullptr;
}
Value* where_bools(const Site& s) {
  if (s.type().dtype != DType::boolean) return nullptr;
  if (s.is(1, 1) && s.is(2, int64_t{0})) return s.in(0);
  if (s.is(1, int64_t{0}) && s.is(2, 1)) return s.build.emit("logical_not", {s.in(0)});
  return nullptr;
}

Value* same_type(const Site& s) { return s.in(0)->type == s.type() ? s.in(0) : nullptr; }
Value* cast_of_cast(const Site& s) {
  Op* inner = s.made_by(0, "astype");
  if (!inner) return nullptr;
  Value* x = inner->operands[0];
  if (!skips_cast(x->type.dtype, inner->result()->type.dtype, s.type().dtype)) return nullptr;
  return x->type == s.type() ? x : s.build.emit("astype", {x}, {{"dtype", s.type().dtype}});
}
Value* cast_of_broadcast(const Site& s) {  // cast the smaller tile
  Op* inner = s.made_by(0, "broadcast");
  if (!inner) return nullptr;
  Value* x = s.build.emit("astype", {inner->operands[0]}, {{"dtype", s.type().dtype}});
  return s.build.broadcast(x, s.type().shape);
}

// Every shape operation on a tile of one value is a broadcast of it.
Value* of_splat(const Site& s) {
  Op* inner = s.made_by(0, "broadcast");
  return inner && inner->type(0).is_scalar() ? s.build.broadcast(inner->operands[0], s.type().shape)
                                             : nullptr;
}
Value* broadcast_of_broadcast(const Site& s) {
  Op* inner = s.made_by(0, "broadcast");
  return inner ? s.build.broadcast(inner->operands[0], s.type().shape) : nullptr;
}
Value* reshape_of_reshape(const Site& s) {
  Op* inner = s.made_by(0, "reshape");
  if (!inner) return nullptr;
  Value* x = inner->operands[0];
  return x->type == s.type() ? x : s.build.emit("reshape", {x}, {{"shape", s.type().shape}});
}
bool in_order(const std::vector<int64_t>& axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) return false;
  return true;
}
Value* permute_identity(const Site& s) { return in_order(s.op.integers("axes")) ? s.in(0) : nullptr; }
Value* permute_of_permute(const Site& s) {
  Op* inner = s.made_by(0, s.op.name());
  if (!inner) return nullptr;
  std::vector<int64_t> axes;
  for (int64_t axis : s.op.integers("axes"))
    axes.push_back(inner->integers("axes")[static_cast<size_t>(axis)]);
  Value* x = inner->operands[0];
  return in_order(axes) ? x : s.build.emit(*s.op.primitive, {x}, {{"axes", axes}});
}

const struct {
  std::string_view primitive;
  Rule rule;
} rules[] = {
    {"add", add_zero},
    {"add", add_negated},
    {"sub", right_is<0>},
    {"sub", same_integers<0>},
    {"sub", subtract_negated},
    {"mul", right_is<1>},
    {"mul", absorbs<0>},
    {"div", right_is<1>},
    {"floordiv", divide_one},
    {"cdiv", divide_one},
    {"mod", mod_one},
    {"shift_left", right_is<0>},
    {"shift_right", right_is<0>},
    {"minimum", same},
    {"minimum", absorption<maximum>},
    {"maximum", same},
    {"maximum", absorption<minimum>},
    {"bitwise_and", same},
    {"bitwise_and", and_ones},
    {"bitwise_and", absorbs<0>},
    {"bitwise_or", same},
    {"bitwise_or", or_ones},
    {"bitwise_or", right_is<0>},
    {"bitwise_xor", right_is<0>},
    {"bitwise_xor", same_integers<0>},
    {"bitwise_not", undone<bitwise_not>},
    {"logical_not", undone<logical_not>},
    {"neg", undone<neg>},
    {"abs", abs_twice},
    {"abs", abs_of<neg>},
    {"eq", same_integers<1>},
    {"le", same_integers<1>},
    {"ge", same_integers<1>},
    {"ne", same_integers<0>},
    {"lt", same_integers<0>},
    {"gt", same_integers<0>},
    {"where", where_known},
    {"where", where_same},
    {"where", where_not},
    {"where", where_bools},
    {"astype", same_type},
    {"astype", cast_of_cast},
    {"astype", cast_of_broadcast},
    {"broadcast", same_type},
    {"broadcast", broadcast_of_broadcast},
    {"reshape", same_type},
    {"reshape", of_splat},
    {"reshape", reshape_of_reshape},
    {"permute", of_splat},
    {"permute", permute_identity},
    {"permute", permute_of_permute},
    {"permute_array", permute_identity},
    {"permute_array", permute_of_permute},
};

const std::vector<Rule>& rules_of(const Primitive& primitive) {
  static const auto& table = *[] {
    auto* by_primitive = new std::unordered_map<const Primitive*, std::vector<Rule>>;
    for (const auto& row : rules)
      if (const Primitive* found = find_primitive(row.primitive)) (*by_primitive)[found].push_back(row.rule);
    return by_primitive;
  }();
  static const std::vector<Rule> none;
  auto at = table.find(&primitive);
  return at == table.end() ? none : at->second;
}

// Returns true for an assertion that is known to hold, as split loops produce.
bool always_holds(const Op& op) {
  if (!op.is("assert")) return false;
  const auto known = constant_of(op.operands[0]);
  return known && known->integer != 0;
}

}  // namespace

bool simplify(Function& function) {
  Rewriter rewrite(function);
  rewrite.run(function.body(), [&](Op& op) {
    if (always_holds(op)) return Keep::no;
    for (Rule rule : rules_of(*op.primitive))
      if (Value* value = rule(Site{op, rewrite.build})) {
        rewrite.replace(op.result(), value);
        return Keep::no;
      }
    return Keep::yes;
  });
  return rewrite.changed;
}

}  // namespace tile
