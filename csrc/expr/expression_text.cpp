// Parses expressions by recursive descent.
#include "expr/expression_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

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
  bool of_integers = false;  // parameters may also be integers
};
const std::vector<Definition>& definitions_of_functions() {
  static const std::vector<Definition> table{
      {"max", {"x", "y"}, "maximum(x, y)", true},
      {"min", {"x", "y"}, "minimum(x, y)", true},
      {"bool", {"x"}, "x != 0", true},
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

// Functions that convert to integers and back.
const std::map<std::string_view, DType>& conversions() {
  static const std::map<std::string_view, DType> table{
      {"float", DType::f32}, {"int32", DType::i32}, {"int64", DType::i64}};
  return table;
}

// The operators: the primitives that they are, by precedence.
using Operators = std::vector<std::pair<std::string_view, std::string_view>>;
const Operators either{{"|", "bitwise_or"}}, one_of{{"^", "bitwise_xor"}}, both{{"&", "bitwise_and"}};
const Operators comparisons{{"<=", "le"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {">", "gt"}};
const Operators sums{{"+", "add"}, {"-", "sub"}};
const Operators factors{{"*", "mul"}, {"/", "div"}};

std::string_view kind_of(DType dtype) {
  return dtype == DType::boolean ? "condition" : is_integer(dtype) ? "integer" : "number";
}
std::string kinds_of(const std::vector<DType>& dtypes) { return str("(", join(dtypes, ", ", kind_of), ")"); }

// Returns the dtype of a primitive's result, or none if it does not take such operands.
std::optional<DType> result_of(const Primitive& primitive, const std::vector<DType>& dtypes) {
  const bool takes =
      primitive.dtypes.has(dtypes[0]) &&
      (dtypes[0] == DType::boolean || is_integer(dtypes[0]) || primitive.dtypes.has(DType::f64));
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
  bool is_whole(size_t node) const {
    const Node& given = made_.nodes_[node];
    return given.is_number() && std::abs(given.number) < 0x1p31 && given.number == std::trunc(given.number);
  }
  size_t converted(size_t operand, DType to) {
    if (dtype(operand) == to) return operand;
    if (is_integer(to) && is_whole(operand))
      return add({.number = made_.nodes_[operand].number, .dtype = to});
    return add({.operands = {operand}, .converted = true, .dtype = to});
  }
  // Gives integers and the whole numbers beside them one dtype, the wider one.
  void join_integers(std::vector<size_t>& operands) {
    std::optional<DType> widest;
    for (const size_t operand : operands)
      if (is_integer(dtype(operand)) && widest != DType::i64) widest = dtype(operand);
    if (!widest) return;
    for (size_t& operand : operands)
      if (is_integer(dtype(operand)) || is_whole(operand)) operand = converted(operand, *widest);
  }
  // `shown` is how the text writes the primitive; it begins at `at`.
  size_t apply(const Primitive& primitive, std::vector<size_t> operands, size_t at, std::string_view shown) {
    join_integers(operands);
    std::vector<DType> given;
    for (const size_t operand : operands) given.push_back(dtype(operand));
    const std::optional<DType> result = result_of(primitive, given);
    if (!result) {
      const bool combines = shown == "&" || shown == "|" || shown == "^",
                 has_integers = std::any_of(given.begin(), given.end(), is_integer);
      fail_at(at, str("'", shown, "' takes ", join(taken_by(primitive), " or ", kinds_of), ", and is given ",
                      kinds_of(given),
                      has_integers ? "; float(i) makes an integer a number"
                      : combines   ? "; put each comparison in parentheses: (x < y) & (y < z)"
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
      value = negated(signed_power(), at);
    else if (take("+"))
      value = signed_power();
    else if (take("~"))
      value = apply(primitive("logical_not"), {signed_power()}, at, "~");
    else
      value = power();
    --nested_;
    return value;
  }
  size_t negated(size_t value, size_t at) {
    const Node& given = made_.nodes_[value];
    if (given.is_number()) return add({.number = -given.number, .dtype = given.dtype});
    return apply(primitive("neg"), {value}, at, "-");
  }
  // Small whole exponents are products, which are exact for squares and shorter than pow.
  size_t power() {
    const size_t base = atom();
    if (!take("**")) return base;
    const size_t at = at_ - 2, exponent = signed_power();
    const Node& node = made_.nodes_[exponent];
    if (node.is_number() && (node.number == 2 || node.number == 3)) {
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
    if (const std::optional<size_t> table = table_of(name); table && take("[")) return element(*table, at);
    if (const std::optional<size_t> value = named(name)) return *value;
    if (name == "inf") return add({.number = inf});
    if (name == "nan") return add({.number = std::numeric_limits<double>::quiet_NaN()});
    const bool called = primitive_functions().contains(name) || defined(name) || roundings().contains(name) ||
                        conversions().contains(name);
    fail_at(at, called ? str("'", name, "' is a function; write ", name, "(...)")
                       : str("there is no '", name, "'; the names are ", join(made_.names())));
  }
  std::optional<size_t> index_of(const std::string& name) const {
    const auto& names = made_.names();
    const auto found = std::find(names.begin(), names.end(), name);
    if (inner_ || found == names.end()) return std::nullopt;
    return static_cast<size_t>(found - names.begin());
  }
  std::optional<size_t> table_of(const std::string& name) const {
    const std::optional<size_t> index = index_of(name);
    return index && *index >= made_.kinds_.first_table ? index : std::nullopt;
  }
  DType dtype_of_name(size_t index) const {
    const std::vector<DType>& dtypes = made_.kinds_.dtypes;
    return index < dtypes.size() ? dtypes[index] : DType::f32;
  }
  // Returns the node of a name, which is made where the text first uses it.
  std::optional<size_t> named(const std::string& name) {
    if (const auto known = nodes_of_names_.find(name); known != nodes_of_names_.end()) return known->second;
    const std::optional<size_t> index = index_of(name);
    if (!index) return std::nullopt;
    if (made_.indices_[*index])
      fail_at(at_ - name.size(),
              str("'", name,
                  "' is a value here, and was read with indices before; give the other one as "
                  "an operand of its own"));
    return nodes_of_names_[name] = add({.name = static_cast<int>(*index), .dtype = dtype_of_name(*index)});
  }
  // An element of a name that begins at `at`, and '[' was taken.
  size_t element(size_t index, size_t at) {
    const std::string& name = made_.names()[index];
    const size_t open = at_;
    std::vector<size_t> operands;
    do {
      skip();
      const size_t begin = at_;
      size_t operand = comparison();
      if (is_whole(operand)) operand = converted(operand, DType::i32);
      if (!is_integer(dtype(operand)))
        fail_at(begin, str("an index of '", name, "' is a ", kind_of(dtype(operand)),
                           "; int32(x) makes a number an integer, without its fraction"));
      operands.push_back(operand);
    } while (take(","));
    if (!take("]")) fail_at(str(here(), " is where ',' or ']' must follow; the '[' is in column ", open));
    size_t& known = made_.indices_[index];
    if (nodes_of_names_.contains(name) || (known && known != operands.size()))
      fail_at(at, str("'", name, "' is read with ", operands.size(),
                      operands.size() == 1 ? " index here, and " : " indices here, and ",
                      known ? str("with ", known) : std::string("without any"),
                      " before; give the other one as an operand of its own"));
    known = operands.size();
    return add(
        {.operands = std::move(operands), .name = static_cast<int>(index), .dtype = dtype_of_name(index)});
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
    const auto conversion = conversions().find(name);
    const bool converts = conversion != conversions().end();
    if (!definition && !rounds && !converts && found == primitive_functions().end()) {
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
    const size_t takes = rounds || converts ? 1
                         : definition       ? definition->parameters.size()
                                            : static_cast<size_t>(found->second->operands);
    if (operands.size() != takes)
      fail_at(at, str("'", name, "' takes ", takes, takes == 1 ? " argument" : " arguments",
                      ", and is given ", operands.size(), "; separate arguments by commas"));
    if (rounds) return add({.operands = std::move(operands), .rounded = rounding->second});
    if (converts) return converted(operands[0], conversion->second);
    if (!definition) return apply(*found->second, std::move(operands), at, name);
    std::map<std::string, size_t> parameters;
    for (size_t i = 0; i < takes; ++i) {
      if (dtype(operands[i]) == DType::boolean)
        fail_at(at, str("'", name,
                        "' takes numbers, and is given a condition; choose by it with where(c, x, y)"));
      if (is_integer(dtype(operands[i])) && !definition->of_integers)
        fail_at(at, str("'", name, "' takes numbers, and is given an integer; float(i) makes it one"));
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

ExpressionText::ExpressionText(std::string what, std::string text, std::vector<std::string> names,
                               ExpressionKinds kinds)
    : what_(std::move(what)), text_(std::move(text)), names_(std::move(names)), kinds_(std::move(kinds)) {
  indices_.resize(names_.size());
  results_ = ExpressionParser(*this, text_).results(kinds_.several);
  if (!kinds_.several && is_condition(0))
    refuse(1, "the value is a condition; write where(c, 1, 0) for numbers");
  for (const size_t result : results_)
    if (is_integer(nodes_[result].dtype)) refuse(1, "the value is an integer; write float(i) for a number");
  mark_needed();
  read_.assign(names_.size(), true);
  for (size_t i = 0; i < names_.size(); ++i) alike_.push_back(i);
  if (!kinds_.several) differentiate();
}

void ExpressionText::refuse(size_t column, const std::string& problem) const {
  fail(ErrorKind::value, what_, " '", text_, "', column ", column, ": ", problem);
}

std::vector<std::string> ExpressionText::functions() {
  std::vector<std::string> names;
  for (const auto& [name, primitive] : primitive_functions()) names.emplace_back(name);
  for (const Definition& each : definitions_of_functions()) names.emplace_back(each.name);
  for (const auto& [name, dtype] : roundings()) names.emplace_back(name);
  for (const auto& [name, dtype] : conversions()) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tile
