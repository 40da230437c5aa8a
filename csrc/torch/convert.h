// Typed parameters of an operator's lambdas, read from the boxed arguments. These are the only templates of a
// registration.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/fields.h"

namespace tile {

using BoxedValues = std::vector<c10::IValue>;  // torch's stack: arguments, then results

// A C++ parameter type and its schema type. `concrete`: an alternative C++ type where no extent is symbolic
// (in run).
struct ParameterType {
  std::string cpp, schema, concrete;
};

template <class T>
struct OpParameter {
  static_assert(
      sizeof(T) == 0,
      "an operator's lambda takes at::Tensor, double, int64_t, c10::SymInt, bool, std::string, "
      "at::ScalarType, at::Scalar, at::Device, std::array<bool, N>, std::vector of double, int64_t, "
      "c10::SymInt, bool, at::Tensor, std::optional of one of these, or a struct of such fields");
};

template <>
struct OpParameter<at::Tensor> {
  static ParameterType type();
  static at::Tensor& from(c10::IValue& value) { return value.toTensor(); }
};
template <>
struct OpParameter<double> {
  static ParameterType type();
  static double from(const c10::IValue& value);
};
template <>
struct OpParameter<int64_t> {
  static ParameterType type();
  static int64_t from(const c10::IValue& value);
};
template <>
struct OpParameter<c10::SymInt> {
  static ParameterType type();
  static c10::SymInt from(const c10::IValue& value);
};
template <>
struct OpParameter<bool> {
  static ParameterType type();
  static bool from(const c10::IValue& value);
};
template <>
struct OpParameter<std::string> {
  static ParameterType type();
  static const std::string& from(const c10::IValue& value);
};
template <>
struct OpParameter<std::string_view> : OpParameter<std::string> {};
template <>
struct OpParameter<at::ScalarType> {
  static ParameterType type();
  static at::ScalarType from(const c10::IValue& value);
};
template <>
struct OpParameter<at::Scalar> {
  static ParameterType type();
  static at::Scalar from(const c10::IValue& value);
};
template <>
struct OpParameter<at::Device> {
  static ParameterType type();
  static at::Device from(const c10::IValue& value);
};
template <>
struct OpParameter<std::vector<double>> {
  static ParameterType type();
  static std::vector<double> from(const c10::IValue& value);
};
template <>
struct OpParameter<std::vector<int64_t>> {
  static ParameterType type();
  static std::vector<int64_t> from(const c10::IValue& value);
};
template <>
struct OpParameter<std::vector<c10::SymInt>> {
  static ParameterType type();
  static std::vector<c10::SymInt> from(const c10::IValue& value);
};
template <>
struct OpParameter<std::vector<bool>> {
  static ParameterType type();
  static std::vector<bool> from(const c10::IValue& value);
};
// The type of a gradient operator's `bool[N] output_mask`.
ParameterType bools_type(size_t count);
void read_bools(const c10::IValue& value, bool* bits, size_t count);
template <size_t N>
struct OpParameter<std::array<bool, N>> {
  static ParameterType type() { return bools_type(N); }
  static std::array<bool, N> from(const c10::IValue& value) {
    std::array<bool, N> bits{};
    read_bools(value, bits.data(), N);
    return bits;
  }
};
template <>
struct OpParameter<std::vector<at::Tensor>> {
  static ParameterType type();
  static std::vector<at::Tensor> from(const c10::IValue& value);
};
template <>
struct OpParameter<std::vector<std::optional<at::Tensor>>> {
  static ParameterType type();
  static std::vector<std::optional<at::Tensor>> from(const c10::IValue& value);
};
// The ArrayRef forms convert from lists that live until the lambda returns; short lists are not on the heap.
template <>
struct OpParameter<at::IntArrayRef> : OpParameter<std::vector<int64_t>> {
  static c10::SmallVector<int64_t, 5> from(const c10::IValue& value);
};
template <>
struct OpParameter<c10::SymIntArrayRef> : OpParameter<std::vector<c10::SymInt>> {
  static c10::SmallVector<c10::SymInt, 5> from(const c10::IValue& value);
};
template <>
struct OpParameter<at::TensorList> : OpParameter<std::vector<at::Tensor>> {};

ParameterType optional_type(const ParameterType& inner);
// Returns true for None and for an undefined tensor.
inline bool is_missing(const c10::IValue& value) {
  return value.isNone() || (value.isTensor() && !value.toTensor().defined());
}
template <class T>
struct OpParameter<std::optional<T>> {
  static ParameterType type() { return optional_type(OpParameter<T>::type()); }
  static std::optional<T> from(c10::IValue& value) {
    if (is_missing(value)) return std::nullopt;
    return std::optional<T>(OpParameter<T>::from(value));
  }
};

// A boxed tensor or None as a lambda takes it, without taking a reference.
class BorrowedTensor {
 public:
  explicit BorrowedTensor(const c10::IValue& value) {
    if (!is_missing(value)) tensor_ = Borrow::createBorrow(value.toTensor());
  }
  ~BorrowedTensor() {
    if (tensor_) Borrow::destroyBorrow(*tensor_);
  }
  BorrowedTensor(const BorrowedTensor&) = delete;
  operator const std::optional<at::Tensor>&() const { return tensor_; }

 private:
  using Borrow = c10::MaybeOwnedTraits<at::Tensor>;
  std::optional<at::Tensor> tensor_;
};
template <>
struct OpParameter<std::optional<at::Tensor>> {
  static ParameterType type() { return optional_type(OpParameter<at::Tensor>::type()); }
  static BorrowedTensor from(const c10::IValue& value) { return BorrowedTensor(value); }
};

// One boxed lambda of an operator. It reads its parameters from `values` on and appends its results to
// `results`.
struct BoxedFunction {
  std::function<void(c10::IValue* values, BoxedValues& results)> call;
  bool typed = false;  // false: made by hand (bindings), takes any values; the lists below are empty
  std::vector<ParameterType> parameters;
  std::vector<std::string> results;  // schema types
  bool any_number = false;           // returns a std::vector<at::Tensor> with any number of results
  explicit operator bool() const { return static_cast<bool>(call); }
};

namespace op_detail {

std::vector<ParameterType> parameter_types(std::initializer_list<ParameterType (*)()> types);
std::vector<std::string> result_types(std::initializer_list<std::vector<std::string> (*)()> parts);

using detail::Types;
template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... P>
struct Signature<R (*)(P...)> {
  using Result = R;
  using Parameters = Types<P...>;
};
template <class R, class... P>
struct Signature<R (*)(P...) noexcept> : Signature<R (*)(P...)> {};
template <class C, class R, class... P>
struct Signature<R (C::*)(P...) const> : Signature<R (*)(P...)> {};
template <class C, class R, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (*)(P...)> {};

// Boxes the values that a lambda returned.
template <class T>
struct Results {
  static_assert(
      std::is_void_v<T>,
      "an operator's lambda returns at::Tensor, std::vector<at::Tensor>, std::tuple of these, or nothing");
  static std::vector<std::string> types() { return {}; }
};
template <>
struct Results<at::Tensor> {
  static std::vector<std::string> types() { return {"Tensor"}; }
  static void push(BoxedValues& stack, at::Tensor&& value) { stack.emplace_back(std::move(value)); }
};
template <>
struct Results<std::vector<at::Tensor>> {
  static std::vector<std::string> types() { return {"Tensor[]"}; }
  static void push(BoxedValues& stack, std::vector<at::Tensor>&& value) {
    stack.emplace_back(std::move(value));
  }
};
template <class... T>
struct Results<std::tuple<T...>> {
  static std::vector<std::string> types() { return result_types({Results<T>::types...}); }
  static void push(BoxedValues& stack, std::tuple<T...>&& values) {
    std::apply([&](auto&... value) { (Results<T>::push(stack, std::move(value)), ...); }, values);
  }
};
template <class A, class B>
struct Results<std::pair<A, B>> : Results<std::tuple<A, B>> {};

// The parameters that a schema knows: in the place of a struct its fields, and so on.
template <class P>
auto leaves() {
  if constexpr (detail::is_struct<P>)
    return []<class... T>(Types<T...>) {
      return decltype((Types<>() + ... + leaves<T>()))();
    }(detail::FieldTypes<P>());
  else
    return Types<P>();
}
template <class P>
using Leaves = decltype(leaves<P>());
template <class... P>
constexpr size_t count_of(Types<P...>) {
  return sizeof...(P);
}
template <class... P>
std::vector<ParameterType> types_of(Types<P...>) {
  return parameter_types({OpParameter<P>::type...});
}

// A parameter that was read, as long as the lambda runs: it may be taken by reference.
template <class P>
struct Read {
  using From = decltype(OpParameter<P>::from(std::declval<c10::IValue&>()));
  explicit Read(c10::IValue* values) : value(OpParameter<P>::from(*values)) {}
  From&& get() { return static_cast<From&&>(value); }
  From value;
};
// A view of a list comes with the list.
template <class P>
requires std::is_same_v<P, at::IntArrayRef> || std::is_same_v<P, c10::SymIntArrayRef> ||
    std::is_same_v<P, at::TensorList>
struct Read<P> {
  explicit Read(c10::IValue* values) : list(OpParameter<P>::from(*values)), value(list) {}
  P& get() { return value; }
  decltype(OpParameter<P>::from(std::declval<c10::IValue&>())) list;
  P value;
};
// Reads parameters in order; apply() calls a function with them.
template <class... P>
struct ReadAll {
  explicit ReadAll(c10::IValue*) {}
  template <class F, class... Got>
  decltype(auto) apply(F&& function, Got&&... got) {
    return function(std::forward<Got>(got)...);
  }
};
template <class P, class... More>
struct ReadAll<P, More...> {
  explicit ReadAll(c10::IValue* values) : first(values), more(values + count_of(Leaves<P>())) {}
  template <class F, class... Got>
  decltype(auto) apply(F&& function, Got&&... got) {
    return more.apply(function, std::forward<Got>(got)..., first.get());
  }
  Read<P> first;
  ReadAll<More...> more;
};
template <class... P>
ReadAll<P...> read_all(Types<P...>);
template <detail::Struct P>
struct Read<P> {
  explicit Read(c10::IValue* values)
      : fields(values),
        value(fields.apply([]<class... T>(T&&... field) { return P{std::forward<T>(field)...}; })) {}
  P&& get() { return static_cast<P&&>(value); }
  decltype(read_all(detail::FieldTypes<P>())) fields;
  P value;
};

template <class F, class R, class... P>
BoxedFunction box(F function, Types<P...>) {
  BoxedFunction boxed;
  boxed.typed = true;
  boxed.parameters = types_of(decltype((Types<>() + ... + Leaves<P>()))());
  boxed.results = Results<R>::types();
  boxed.any_number = std::is_same_v<R, std::vector<at::Tensor>>;
  boxed.call = [function = std::move(function)](c10::IValue* values, [[maybe_unused]] BoxedValues& results) {
    ReadAll<P...> parameters(values);
    if constexpr (std::is_void_v<R>)
      parameters.apply(function);
    else
      Results<R>::push(results, parameters.apply(function));
  };
  return boxed;
}

}  // namespace op_detail

template <class F>
BoxedFunction box(F function) {
  using Signature = op_detail::Signature<F>;
  using Parameters = typename Signature::Parameters;
  return [&]<class... P>(op_detail::Types<P...>) {
    return op_detail::box<F, typename Signature::Result>(std::move(function),
                                                         op_detail::Types<std::remove_cvref_t<P>...>());
  }(Parameters{});
}
inline BoxedFunction box(BoxedFunction function) { return function; }

}  // namespace tile
