// Parses expressions by recursive descent, and computes them in a trace.
#include "expr/expression_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_set>

#include "dsl/tracer.h"
#include "prims/derivatives.h"
#include "prims/elementwise.h"

namespace tile {
namespace {

// The deepest nesting of parentheses, calls and signs, and the most values and operations. The parser and the
// derivative are recursive.
constexpr int most_nested = 100;
constexpr size_t most_nodes = 1000;

// Functions that texts have beside the primitives, as texts over their parameters. relu keeps NaN.
struct Definition {
  std::string_view name;
  std::vector<std::string> parameters;
  std::string_view text;
};
const std::vector<Definition>& definitions_of_functions() {
  static const std::vector<Definition> table{
      {"max", {"x", "y"}, "maximum(x, y)"},
      {"min", {"x", "y"}, "minimum(x, y)"},
      {"bool", {"x"}, "x != 0"},
      {"relu", {"x"}, "where(x <= 0, 0, x)"},
      {"gelu", {"x"}, "fma(x * 0.5, erf(x * 0.70710678118654752440), x * 0.5)"},
      {"gelu_tanh",
       {"x"},
       "fma(x * 0.5, tanh(x * fma(x * x, 0.79788456080286535588 * 0.044715, 0.79788456080286535588)), x * "
       "0.5)"},
  };
  return table;
}

// Functions that round to a dtype. A condition becomes 1 or 0.
const std::map<std::string_view, DType>& roundings() {
  static const std::map<std::string_view, DType> table{
      {"bfloat16", DType::bf16}, {"float16", DType::f16}, {"float32", DType::f32}};
  return table;
}

// The operators: the primitives that they are, by precedence.
using Operators = std::vector<std::pair<std::string_view, std::string_view>>;
const Operators either{{"|", "bitwise_or"}}, one_of{{"^", "bitwise_xor"}}, both{{"&", "bitwise_and"}};
const Operators comparisons{{"<=", "le"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {">", "gt"}};
const Operators sums{{"+", "add"}, {"-", "sub"}};
const Operators factors{{"*", "mul"}, {"/", "div"}};

std::string_view kind_of(DType dtype) { return dtype == DType::boolean ? "condition" : "number"; }
std::string kinds_of(const std::vector<DType>& dtypes) { return str("(", join(dtypes, ", ", kind_of), ")"); }

// Returns the dtype of a primitive's result, or none if it does not take such operands.
std::optional<DType> result_of(const Primitive& primitive, const std::vector<DType>& dtypes) {
  const bool takes =
      primitive.dtypes.has(dtypes[0]) && (dtypes[0] == DType::boolean || primitive.dtypes.has(DType::f64));
  if (!takes || static_cast<size_t>(primitive.operands) != dtypes.size()) return std::nullopt;
  Function function("types");
  Op op;
  op.primitive = &primitive;
  for (const DType dtype : dtypes)
    op.operands.push_back(function.add_argument(function.body(), Type::tile(dtype), {}));
  try {
    const std::vector<Type> types = primitive.infer(op);
    return types.size() == 1 ? std::optional(types[0].dtype) : std::nullopt;
  } catch (const std::exception&) {  // other operands, or attributes that a text does not write
    return std::nullopt;
  }
}

// Returns all kinds of operands that a primitive takes. Each is a number or a condition.
std::vector<std::vector<DType>> taken_by(const Primitive& primitive) {
  std::vector<std::vector<DType>> taken;
  for (unsigned bits = 0; bits < 1u << primitive.operands; ++bits) {
    std::vector<DType> dtypes;
    for (int i = 0; i < primitive.operands; ++i)
      dtypes.push_back(bits >> i & 1 ? DType::boolean : DType::f32);
    if (result_of(primitive, dtypes)) taken.push_back(dtypes);
  }
  return taken;
}

// A primitive is a function of texts if its operands can be numbers and conditions. Its variants with a
// rounding mode are not functions of the language.
bool is_function(const Primitive& primitive) {
  const std::string_view name = primitive.name;
  for (const std::string_view mode : {"_rz", "_rm", "_rp"})
    if (name.ends_with(mode)) return false;
  return primitive.traits.elementwise && !primitive.target && primitive.infer && primitive.operands >= 1 &&
         primitive.operands <= 3 && !taken_by(primitive).empty();
}
const std::map<std::string_view, const Primitive*>& primitive_functions() {
  static const auto table = [] {
    std::map<std::string_view, const Primitive*> found;
    for (const Primitive* primitive : all_primitives())
      if (is_function(*primitive)) found.emplace(primitive->name, primitive);
    return found;
  }();
  return table;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_expression_name(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

// Adds the nodes of a text to an expression.
class ExpressionParser {
 public:
  // A text of the user, over the names of `made`.
  ExpressionParser(ExpressionText& made, std::string_view text) : made_(made), text_(text) {}
  // The text of a function, over the nodes of its parameters.
  ExpressionParser(ExpressionText& made, std::string_view text, std::map<std::string, size_t> parameters)
      : made_(made), text_(text), nodes_of_names_(std::move(parameters)), inner_(true) {}

  size_t whole() {
    const size_t value = comparison();
    end();
    return value;
  }

  // The results of statements that ';' separates: values, and names of values that others compute from.
  std::vector<size_t> results(bool several) {
    std::vector<size_t> found;
    do {
      skip();
      const size_t at = at_;
      if (const std::string name = assigned(); !name.empty()) {
        nodes_of_names_[name] = comparison();
        continue;
      }
      found.push_back(comparison());
      if (found.size() > 1 && !several)
        fail_at(at,
                "this is a second value, and one is the result; give others names: h = x + 1; silu(h) * h");
    } while (take(";"));
    end();
    if (found.empty())
      fail_at("the text only gives names to values; end with a result: h = x + 1; silu(h) * h");
    return found;
  }

 private:
  using Node = ExpressionText::Node;

  [[noreturn]] void fail_at(const std::string& problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_at(size_t at, const std::string& problem) const { made_.refuse(at + 1, problem); }

  void end() {
    if (skip(), at_ < text_.size()) {
      if (text_[at_] == ',') fail_at("',' is outside of a call; remove it");
      if (text_[at_] == ')') fail_at("')' closes no '('; remove it");
      if (text_[at_] == '=') fail_at("'=' is no operator; write == to compare");
      fail_at(str(here(),
                  " is where an operator must follow; the operators are + - * / ** < <= > >= == != & | ^"));
    }
  }
  // Takes "name =", unless it is that of an operand, and returns it.
  std::string assigned() {
    const size_t at = at_;
    if (at_ < text_.size() && is_letter(text_[at_])) {
      std::string name(word());
      skip();
      const std::string_view rest = text_.substr(at_);
      const auto& names = made_.names();
      if (rest.starts_with("=") && !rest.starts_with("==") &&
          std::find(names.begin(), names.end(), name) == names.end()) {
        if (nodes_of_names_.contains(name))
          fail_at(at, str("'", name, "' has a value; give this one another name"));
        ++at_;
        return name;
      }
    }
    at_ = at;
    return {};
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  // Returns the character that follows, whole if it is one of several bytes.
  std::string here() const {
    if (at_ >= text_.size()) return "the end";
    size_t end = at_ + 1;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0) == 0x80) ++end;
    return str("'", text_.substr(at_, end - at_), "'");
  }
  std::string_view word() {
    const size_t from = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(from, at_ - from);
  }

  size_t add(Node node) {
    if (!inner_ && made_.nodes_.size() >= most_nodes)
      fail_at(str("the text has more than ", most_nodes,
                  " values and operations; compute a part of it before the call"));
    made_.nodes_.push_back(std::move(node));
    return made_.nodes_.size() - 1;
  }
  DType dtype(size_t node) const { return made_.nodes_[node].dtype; }
  // `shown` is how the text writes the primitive; it begins at `at`.
  size_t apply(const Primitive& primitive, std::vector<size_t> operands, size_t at, std::string_view shown) {
    std::vector<DType> given;
    for (const size_t operand : operands) given.push_back(dtype(operand));
    const std::optional<DType> result = result_of(primitive, given);
    if (!result) {
      const bool combines = shown == "&" || shown == "|" || shown == "^";
      fail_at(at, str("'", shown, "' takes ", join(taken_by(primitive), " or ", kinds_of), ", and is given ",
                      kinds_of(given),
                      combines ? "; put each comparison in parentheses: (x < y) & (y < z)"
                               : "; a comparison gives a condition, where(c, x, y) chooses by one"));
    }
    return add({.primitive = &primitive, .operands = std::move(operands), .dtype = *result});
  }
  // Takes an operator, unless it begins `not_before`.
  const std::pair<std::string_view, std::string_view>* operator_of(const Operators& table,
                                                                   std::string_view not_before = {}) {
    skip();
    if (!not_before.empty() && text_.substr(at_).starts_with(not_before)) return nullptr;
    for (const auto& each : table)
      if (take(each.first)) return &each;
    return nullptr;
  }
  size_t chain(const Operators& table, size_t (ExpressionParser::*operand)(),
               std::string_view not_before = {}) {
    size_t value = (this->*operand)();
    while (true) {
      const auto* found = operator_of(table, not_before);
      if (!found) return value;
      const size_t at = at_ - found->first.size();
      const size_t right = (this->*operand)();
      value = apply(primitive(found->second), {value, right}, at, found->first);
    }
  }

  size_t comparison() {
    const size_t left = any();
    const auto* found = operator_of(comparisons);
    if (!found) return left;
    const size_t at = at_ - found->first.size();
    const size_t right = any();
    const size_t value = apply(primitive(found->second), {left, right}, at, found->first);
    if (const auto* next = operator_of(comparisons))
      fail_at(at_ - next->first.size(), "this compares a third value; write bitwise_and(a < b, b < c)");
    return value;
  }
  size_t any() { return chain(either, &ExpressionParser::exclusive); }
  size_t exclusive() { return chain(one_of, &ExpressionParser::all); }
  size_t all() { return chain(both, &ExpressionParser::sum); }
  size_t sum() { return chain(sums, &ExpressionParser::product); }
  size_t product() { return chain(factors, &ExpressionParser::signed_power, "**"); }
  size_t signed_power() {
    if (++nested_ > most_nested)
      fail_at(str("the text is more than ", most_nested, " deep; write fewer parentheses, calls and signs"));
    skip();
    const size_t at = at_;
    size_t value;
    if (take("-"))
      value = apply(primitive("neg"), {signed_power()}, at, "-");
    else if (take("+"))
      value = signed_power();
    else if (take("~"))
      value = apply(primitive("logical_not"), {signed_power()}, at, "~");
    else
      value = power();
    --nested_;
    return value;
  }
  // Small whole exponents are products, which are exact for squares and shorter than pow.
  size_t power() {
    const size_t base = atom();
    if (!take("**")) return base;
    const size_t at = at_ - 2, exponent = signed_power();
    const Node& node = made_.nodes_[exponent];
    const bool literal = !node.primitive && node.name < 0;
    if (literal && (node.number == 2 || node.number == 3)) {
      const bool cube = node.number == 3;
      const size_t square = apply(primitive("mul"), {base, base}, at, "**");
      return cube ? apply(primitive("mul"), {square, base}, at, "**") : square;
    }
    return apply(primitive("pow"), {base, exponent}, at, "**");
  }
  size_t atom() {
    skip();
    const size_t at = at_;
    if (take("(")) {
      const size_t value = comparison();
      if (!take(")")) fail_at(str(here(), " is where ')' must follow; the '(' is in column ", at + 1));
      return value;
    }
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) return number();
    if (at_ >= text_.size() || !is_letter(text_[at_]))
      fail_at(str(here(), " is where a value must follow; write a number, a name, a call or '('"));
    const std::string name(word());
    if (take("(")) return call(name, at);
    if (const std::optional<size_t> value = named(name)) return *value;
    if (name == "inf") return add({.number = inf});
    if (name == "nan") return add({.number = std::numeric_limits<double>::quiet_NaN()});
    const bool called = primitive_functions().contains(name) || defined(name) || roundings().contains(name);
    fail_at(at, called ? str("'", name, "' is a function; write ", name, "(...)")
                       : str("there is no '", name, "'; the names are ", join(made_.names())));
  }
  // Returns the node of a name, which is made where the text first uses it.
  std::optional<size_t> named(const std::string& name) {
    if (const auto known = nodes_of_names_.find(name); known != nodes_of_names_.end()) return known->second;
    const auto& names = made_.names();
    const auto found = std::find(names.begin(), names.end(), name);
    if (inner_ || found == names.end()) return std::nullopt;
    const auto index = static_cast<size_t>(found - names.begin());
    const std::vector<bool>& conditions = made_.kinds_.conditions;
    const bool condition = index < conditions.size() && conditions[index];
    return nodes_of_names_[name] =
               add({.name = static_cast<int>(index), .dtype = condition ? DType::boolean : DType::f32});
  }
  size_t number() {
    const size_t at = at_;
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    at_ = static_cast<size_t>(end - text_.data());
    if (error == std::errc::result_out_of_range)
      fail_at(at, "float64 does not hold this number; write inf or 0");
    if (error != std::errc()) fail_at(at, "'.' has no digits; write numbers as 2, 0.5 or 1e-3");
    if (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '.'))
      fail_at(str(here(), " follows a number; write numbers as 2, 0.5 or 1e-3"));
    return add({.number = value});
  }

  static const Definition* defined(std::string_view name) {
    for (const Definition& each : definitions_of_functions())
      if (each.name == name) return &each;
    return nullptr;
  }
  // The name begins at `at`, and '(' was taken.
  size_t call(const std::string& name, size_t at) {
    const Definition* definition = defined(name);
    const auto found = primitive_functions().find(name);
    const auto rounding = roundings().find(name);
    const bool rounds = rounding != roundings().end();
    if (!definition && !rounds && found == primitive_functions().end()) {
      if (named(name))
        fail_at(at, str("'", name, "' is a value, which cannot be called; write an operator before '('"));
      fail_at(at, str("there is no function '", name, "'; the functions are ",
                      join(ExpressionText::functions())));
    }
    const size_t open = at_;
    std::vector<size_t> operands;
    if (!take(")")) {
      do operands.push_back(comparison());
      while (take(","));
      if (!take(")")) fail_at(str(here(), " is where ',' or ')' must follow; the '(' is in column ", open));
    }
    const size_t takes = rounds       ? 1
                         : definition ? definition->parameters.size()
                                      : static_cast<size_t>(found->second->operands);
    if (operands.size() != takes)
      fail_at(at, str("'", name, "' takes ", takes, takes == 1 ? " argument" : " arguments",
                      ", and is given ", operands.size(), "; separate arguments by commas"));
    if (rounds) return add({.operands = std::move(operands), .rounded = rounding->second});
    if (!definition) return apply(*found->second, std::move(operands), at, name);
    std::map<std::string, size_t> parameters;
    for (size_t i = 0; i < takes; ++i) {
      if (dtype(operands[i]) == DType::boolean)
        fail_at(at, str("'", name,
                        "' takes numbers, and is given a condition; choose by it with where(c, x, y)"));
      parameters.emplace(definition->parameters[i], operands[i]);
    }
    return ExpressionParser(made_, definition->text, std::move(parameters)).whole();
  }

  ExpressionText& made_;
  std::string_view text_;
  std::map<std::string, size_t> nodes_of_names_;
  bool inner_ = false;
  size_t at_ = 0;
  int nested_ = 0;
};

namespace {

// Returns for each of `inputs` whether one of `results` is computed from it.
std::vector<bool> reached(const std::vector<std::optional<Tile>>& results, const std::vector<Tile>& inputs) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> left;
  for (const std::optional<Tile>& result : results)
    if (result) left.push_back(result->value());
  while (!left.empty()) {
    const Value* value = left.back();
    left.pop_back();
    if (!seen.insert(value).second || !value->definition) continue;
    left.insert(left.end(), value->definition->operands.begin(), value->definition->operands.end());
  }
  std::vector<bool> found;
  for (const Tile& input : inputs) found.push_back(seen.contains(input.value()));
  return found;
}

}  // namespace

ExpressionText::ExpressionText(std::string what, std::string text, std::vector<std::string> names,
                               ExpressionKinds kinds)
    : what_(std::move(what)), text_(std::move(text)), names_(std::move(names)), kinds_(std::move(kinds)) {
  results_ = ExpressionParser(*this, text_).results(kinds_.several);
  if (!kinds_.several && is_condition(0))
    refuse(1, "the value is a condition; write where(c, 1, 0) for numbers");
  mark_needed();
  read_.assign(names_.size(), true);
  for (size_t i = 0; i < names_.size(); ++i) alike_.push_back(i);
  if (!kinds_.several) differentiate();
}

void ExpressionText::mark_needed() {
  used_.resize(names_.size());
  needed_.resize(nodes_.size());
  for (const size_t result : results_) needed_[result] = true;
  for (size_t node = nodes_.size(); node-- > 0;) {
    if (!needed_[node]) continue;
    if (nodes_[node].name >= 0) used_[static_cast<size_t>(nodes_[node].name)] = true;
    for (const size_t operand : nodes_[node].operands) needed_[operand] = true;
  }
}

void ExpressionText::differentiate() {
  Tracer tracer("derivatives of a text");
  const auto parameter = [&](DType dtype = DType::f32) {
    return Tile(tracer.function().add_argument(tracer.function().body(), Type::tile(dtype), {}));
  };
  const auto is_condition = [&](size_t i) { return i < kinds_.conditions.size() && kinds_.conditions[i]; };
  std::vector<Tile> inputs;
  for (size_t i = 0; i < names_.size(); ++i)
    inputs.push_back(parameter(is_condition(i) ? DType::boolean : DType::f32));
  const Tile seed = parameter();
  try {
    const Tile result = (*this)(DType::f32, [&](size_t name) { return inputs[name]; });
    const std::vector<std::optional<Tile>> found = derivatives({result}, {seed}, inputs);
    has_derivatives_ = true;
    read_ = reached(found, inputs);
    for (size_t i = 0; i < found.size(); ++i)
      for (size_t k = i; k-- > 0;)
        if (found[i] && found[k] && found[i]->value() == found[k]->value()) alike_[i] = alike_[k];
  } catch (const Error&) {  // a function without a derivative, which the gradient refuses
  }
}

bool ExpressionText::stays_finite() const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!needed_[i]) continue;
    if (!node.primitive) {
      if (node.name < 0 && !std::isfinite(node.number)) return false;
      continue;
    }
    if (node.dtype == DType::boolean || tile::stays_finite(node.primitive->name)) continue;
    if (node.primitive->name != std::string_view("div")) return false;
    const Node& by = nodes_[node.operands[1]];
    if (by.primitive || by.rounded || by.name >= 0 || by.number == 0) return false;
  }
  return true;
}

void ExpressionText::refuse(size_t column, const std::string& problem) const {
  fail(ErrorKind::value, what_, " '", text_, "', column ", column, ": ", problem);
}

std::vector<Tile> ExpressionText::all(DType dtype, const ValueOfName& value) const {
  const Location here = Location::current();
  std::vector<Value*> made(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!needed_[i]) continue;
    std::vector<Value*> operands;
    for (const size_t operand : node.operands) operands.push_back(made[operand]);
    if (node.primitive) {
      broadcast_together(node.primitive->name.data(), operands, here);
      made[i] = emit(*node.primitive, std::move(operands), {}, here);
    } else if (node.rounded) {
      made[i] = Tile(operands[0]).astype(*node.rounded, here).astype(dtype, here).value();
    } else {
      made[i] = node.name < 0 ? Operand(node.number, here).as(dtype, "constant")
                              : value(static_cast<size_t>(node.name)).value();
    }
  }
  std::vector<Tile> results;
  for (const size_t result : results_) results.emplace_back(made[result]);
  return results;
}

std::vector<std::string> ExpressionText::functions() {
  std::vector<std::string> names;
  for (const auto& [name, primitive] : primitive_functions()) names.emplace_back(name);
  for (const Definition& each : definitions_of_functions()) names.emplace_back(each.name);
  for (const auto& [name, dtype] : roundings()) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tile
