// An expression over scalars, as an operator's author writes it, and how it sees the operator's arguments.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tile/op.h"

namespace tile {

// An argument of the operator in a trace. Tensors and numbers are tiles of the dtype that the expression is
// computed in (tensors of bool stay bool); bool and strings are compile-time constants.
struct ExpressionArgument {
  std::optional<Tile> tile;
  c10::IValue constant;
};
using Expression = std::function<std::vector<Tile>(const std::vector<ExpressionArgument>&)>;

// Returns a number that changes when the expression may return other tiles than before, which an expression
// written in Python can do. Empty for an expression that never changes.
using ExpressionVersion = std::function<uint64_t()>;

namespace expression_detail {

template <class T>
T argument(const ExpressionArgument& given) {
  if constexpr (std::is_same_v<T, Tile>)
    return *given.tile;
  else
    return given.constant.to<T>();
}
inline std::vector<Tile> results(Tile tile) { return {std::move(tile)}; }
inline std::vector<Tile> results(std::vector<Tile> tiles) { return tiles; }
template <class... T>
std::vector<Tile> results(const std::tuple<T...>& tiles) {
  return std::apply([](const T&... each) { return std::vector<Tile>{each...}; }, tiles);
}
void check_count(std::string_view what, size_t given, size_t taken);

template <class F, class... P, size_t... I>
Expression boxed(F function, op_detail::Types<P...>, std::index_sequence<I...>, std::string what) {
  static_assert(
      ((std::is_same_v<std::remove_cvref_t<P>, Tile> || std::is_same_v<std::remove_cvref_t<P>, bool> ||
        std::is_same_v<std::remove_cvref_t<P>, std::string>)&&...),
      "an expression takes Tile for tensors and numbers, bool, and std::string");
  return
      [function = std::move(function), what = std::move(what)](const std::vector<ExpressionArgument>& given) {
        check_count(what, given.size(), sizeof...(P));
        return results(function(argument<std::remove_cvref_t<P>>(given[I])...));
      };
}

}  // namespace expression_detail

// Makes an Expression from a lambda over Tile, bool and std::string that returns a Tile, or a tuple or vector
// of them.
template <class F>
Expression expression(F function, std::string what = "the expression") {
  using Parameters = typename op_detail::Signature<F>::Parameters;
  return [&]<class... P>(op_detail::Types<P...> types) {
    return expression_detail::boxed(std::move(function), types, std::index_sequence_for<P...>{},
                                    std::move(what));
  }(Parameters{});
}

// The arguments of a schema as an expression uses them.
class ExpressionSchema {
 public:
  // Throws for an argument or result of a type that expressions do not support. `skip` is the number of last
  // arguments that are not passed to the expression.
  ExpressionSchema(const std::string& text, size_t skip, ExpressionVersion version = {});

  enum class Kind { tensor, number, constant };
  struct Argument {
    std::string name, type;
    Kind kind;
  };
  std::string name;
  std::vector<Argument> arguments;  // without the skipped ones
  std::vector<std::string> results;
  std::string arguments_text;  // as in the schema, without defaults and skipped arguments
  size_t tensors = 0;
  ExpressionVersion version;  // its number is part of every launch key

  // Returns the dtype that torch promotes tensors and numbers to. Tensors of bool are ignored if there are
  // others.
  at::ScalarType common_dtype(const c10::IValue* values) const;
  // Returns the shape after NumPy's broadcasting. Throws if the tensors do not broadcast.
  c10::SymDimVector common_shape(const c10::IValue* values) const;
  std::vector<int64_t> concrete_shape(const c10::IValue* values) const;
  std::vector<at::Tensor> tensors_of(const c10::IValue* values) const;
};

// Returns the dtype that values of a dtype are computed in: float32 for shorter floats.
DType computed_in(DType dtype);

// Caches a value for calls with the same key.
template <class T>
class KnownByCall {
 public:
  // No lock is held while a value is made, because an expression in Python waits for the interpreter.
  template <class F>
  T get(const LaunchKey& key, F make) {
    {
      std::lock_guard lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
    }
    T made = make();
    std::lock_guard lock(mutex_);
    return known_.emplace(key, std::move(made)).first->second;
  }

 private:
  struct Hash {
    size_t operator()(const LaunchKey& key) const { return key.hash(); }
  };
  std::mutex mutex_;
  std::unordered_map<LaunchKey, T, Hash> known_;
};

// A kernel whose arguments are not parameters of a C++ function but are added one by one.
class ExpressionKernel : public KernelBase {
 public:
  ExpressionKernel(const std::string& name, Location where) : KernelBase(intern(name), where) {}
  using KernelBase::launch_call;
  using KernelBase::trace_call;
};

// The numbers and constants of a call, passed to a launch.
class ExpressionValues {
 public:
  ExpressionValues(const ExpressionSchema& schema, const c10::IValue* values);
  void key(LaunchKey& key) const;
  // Returns the key of everything that the expression's dtypes depend on. common: the result of
  // schema.common_dtype.
  LaunchKey dtype_key(at::ScalarType common) const;
  // Adds the numbers after the arrays that were added before.
  void pass(std::vector<ArgumentRef>& passed) const;
  // Makes parameters of the numbers in a trace, with the dtype of the computation.
  std::vector<Tile> bind(Tracer& tracer, DType compute) const;
  // Returns the arguments of the expression. tensors: one tile for each.
  std::vector<ExpressionArgument> arguments(const std::vector<Tile>& tensors,
                                            const std::vector<Tile>& numbers) const;

 private:
  const ExpressionSchema& schema_;
  const c10::IValue* values_;
  std::vector<ScalarArgument> numbers_;
};

// Throws if the ops from ops[from] on are not all elementwise, because their result would depend on the tile
// shape.
void require_elementwise(const std::string& name, const Block& block, size_t from);

}  // namespace tile
