// Expressions that users write as text over named values: "silu(acc + bias) * gate".
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/tile.h"

namespace tile {

// How a text may differ from one number over names of numbers.
struct ExpressionKinds {
  // Those of the names: boolean for conditions, i32 and i64 for integers, f32 for numbers, as those past its
  // end.
  std::vector<DType> dtypes = {};
  // The text may have several results, numbers and conditions. It has no derivatives.
  bool several = false;
  // The text may read elements of the names from this one on, as in "table[i, j]".
  size_t first_table = std::numeric_limits<size_t>::max();
};

// A parsed text. It has numbers, inf, nan, names, + - * / **, unary - and +, & | ^ ~ of conditions,
// comparisons of two, parentheses, the elementwise primitives of floats by their names (where too), max, min,
// relu, gelu and gelu_tanh, and float16, bfloat16 and float32, which round. Integers are combined with
// integers and whole numbers; int32, int64 and float convert. "h = x + y; silu(h) * h" names a part of it.
// The rules of precedence are those of Python. A text is checked when it is parsed, so that its evaluation
// does not fail.
class ExpressionText {
 public:
  // `what` is how errors name the text. Each name stands for a float, or for what `kinds` says.
  ExpressionText(std::string what, std::string text, std::vector<std::string> names,
                 ExpressionKinds kinds = {});

  const std::vector<std::string>& names() const { return names_; }
  bool uses(size_t name) const { return used_[name]; }
  // The number of indices with which the text reads elements of a name, 0 if it takes the name as a value.
  size_t indices(size_t name) const { return indices_[name]; }
  size_t results() const { return results_.size(); }
  bool is_condition(size_t result) const { return nodes_[results_[result]].dtype == DType::boolean; }
  // Returns true if all that the text computes of numbers has a derivative.
  bool has_derivatives() const { return has_derivatives_; }
  // Returns true if small numbers of all names, 0 too, give finite results and derivatives.
  bool stays_finite() const;
  // Returns true if a derivative of the text is computed from this value.
  bool derivatives_read(size_t name) const { return read_[name]; }
  // Returns true if the derivatives by both names are one value, as those of x + y.
  bool one_derivative(size_t name, size_t other) const { return alike_[name] == alike_[other]; }
  // Throws Error: what the text is, the column (from 1), and the parts.
  [[noreturn]] void refuse(size_t column, const std::string& problem) const;

  // Computes the text in the current trace. `value` returns a tile of this dtype, or a bool one, for the name
  // with the given index; tiles broadcast. It is called once for each name that the text uses, where the text
  // first does.
  using ValueOfName = std::function<Tile(size_t name)>;
  // The same for an element of a name; it is called for each place of the text that reads one.
  using ElementOfName = std::function<Tile(size_t name, const std::vector<Tile>& indices)>;
  std::vector<Tile> all(DType dtype, const ValueOfName& value, const ElementOfName& element = {}) const;
  // The same for a text with one result.
  Tile operator()(DType dtype, const ValueOfName& value, const ElementOfName& element = {}) const {
    return all(dtype, value, element).front();
  }

  // Returns the functions that a text may call, sorted.
  static std::vector<std::string> functions();

 private:
  friend class ExpressionParser;
  // A node's operands come before it.
  struct Node {
    // Null: a number, a name, an element of a name at the operands, or a value in another dtype.
    const Primitive* primitive = nullptr;
    std::vector<size_t> operands;
    double number = 0;
    int name = -1;                      // an index, or none
    std::optional<DType> rounded = {};  // the operand, as this dtype holds it
    bool converted = false;             // the operand, in `dtype`
    DType dtype = DType::f32;           // boolean for a condition; f32 stands for every float
    bool is_number() const { return !primitive && name < 0 && !rounded && !converted; }
  };
  void mark_needed();
  void differentiate();

  std::string what_, text_;
  std::vector<std::string> names_;
  ExpressionKinds kinds_;
  std::vector<Node> nodes_;
  std::vector<size_t> results_;
  std::vector<bool> needed_;       // nodes from which a result is computed
  std::vector<bool> used_, read_;  // of the names
  std::vector<size_t> indices_;    // of the names
  std::vector<size_t> alike_;      // names with the same number have one derivative
  bool has_derivatives_ = false;
};

// Returns true for a letter or _ followed by letters, digits and _.
bool is_expression_name(std::string_view text);

}  // namespace tile
