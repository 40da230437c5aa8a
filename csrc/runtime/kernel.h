// Kernel: a function over arrays, tiles and constants, compiled once per key and launched over a grid.
// The C++ type of a parameter determines when its value is known: Array and Tile at run time, all others
// while tracing. A struct is a group of parameters, its fields.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "dsl/array.h"
#include "dsl/tile.h"
#include "ir/op.h"
#include "ir/touched.h"
#include "runtime/argument.h"
#include "support/fields.h"

namespace tile {

class Executable;
class Tracer;
struct RecordedLaunch;
struct Target;

// The integer type of a kernel's extents. narrow: dim() and num_tiles() are i32, and a launch refuses arrays
// with more than 2147483647 elements along an axis. wide: they are i64 for every array.
enum class Extents : uint8_t { narrow, wide };

// Traces the body once; called only when a key is new.
using TraceBody = std::function<void(Tracer&)>;

class KernelBase {
 public:
  explicit KernelBase(const char* name, Location location);
  KernelBase(const char* name, Location location, Extents extents);
  KernelBase(const KernelBase&) = delete;
  ~KernelBase();

  const std::string& name() const;
  const Location& where() const;
  size_t compiled_count() const;  // kernels compiled so far, over all keys
  // Returns the same for every Kernel in the process, by name.
  static std::map<std::string, size_t> compiled_counts();

 protected:
  // Returns a bit for each of the first 64 arguments, set if the launch wrote its memory.
  uint64_t launch_call(Grid grid, const LaunchKey& key, ArgumentRefs arguments, const TraceBody& body);
  // The same, but first calls check(call, touched), which may refuse the launch.
  using WriteCheck = void (*)(const void* call, const Touched& touched);
  uint64_t launch_call(Grid grid, const LaunchKey& key, ArgumentRefs arguments, const TraceBody& body,
                       WriteCheck check, const void* call);
  Touched touched_of(const TraceBody& body) const;
  Function trace_call(const TraceBody& body) const;  // before any pass

 private:
  struct State;
  Function compiled(const TraceBody& body) const;  // after all passes
  const Executable& compile(const Target& target, const LaunchKey& key,
                            const std::function<Function()>& compiled);
  RecordedLaunch recorded(const Target& target, Grid grid, const LaunchKey& key, ArgumentRefs arguments,
                          const TraceBody& body);
  std::unique_ptr<State> state_;
};

// Returns the function after tracing and after each pass, for inspection and docs.
std::string compiled_text(const Function& traced);

// Converts an argument for a launch. csrc/torch adds at::Tensor through argument-dependent lookup.
inline const ArrayArgument& to_array_argument(const ArrayArgument& array) { return array; }

namespace detail {

Value* add_array_parameter(Tracer& tracer, const ArrayArgument& array);
Value* add_scalar_parameter(Tracer& tracer, DType dtype);
void key_of_array(LaunchKey& key, const ArrayArgument& array);

template <class T>
concept has_key_words = requires(LaunchKey& key, const T& value) {
  key_words(key, value);
};

template <class T>
void key_of_constant(LaunchKey& key, const T& value) {
  if constexpr (std::is_floating_point_v<T>)
    key.add(std::bit_cast<uint64_t>(static_cast<double>(value)));
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    key.add(static_cast<uint64_t>(value));
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    key.add_text(value);
  else if constexpr (std::is_same_v<T, Shape>) {
    key.add(value.size());
    for (int64_t extent : value) key.add(static_cast<uint64_t>(extent));
  } else if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    key.add(reinterpret_cast<uint64_t>(value));
  } else {
    static_assert(
        has_key_words<T>,
        "a kernel's parameter is an Array, a Tile, a std::optional, std::tuple or std::vector of these, a "
        "constant "
        "(an integer, enum, floating-point number, string, Shape or function, or a type with key_words()), "
        "or a struct of such fields, by value");
    key_words(key, value);  // a user's type: found by lookup of its namespace
  }
}

// launch() takes these in a struct: a tensor or an ArrayArgument for an Array, a number for a Tile.
struct LaunchedArray {
  template <class A>
  requires(!std::is_same_v<A, AnyField> && requires(const A& array) { to_array_argument(array); })
      LaunchedArray(const A& array)
      : argument(to_array_argument(array)) {}
  operator const ArrayArgument&() const { return argument; }
  ArrayArgument argument;
};
struct LaunchedTile {
  template <class T>
  requires std::is_arithmetic_v<T> LaunchedTile(T value) : argument(scalar_argument(value)) {}
  LaunchedTile(const ScalarArgument& argument) : argument(argument) {}
  operator const ScalarArgument&() const { return argument; }
  ScalarArgument argument;
};
// The type of a parameter at a launch. A struct that holds arrays is a template of what it holds.
template <class T>
struct LaunchedOf {
  using type = T;
};
template <>
struct LaunchedOf<Array> {
  using type = LaunchedArray;
};
template <>
struct LaunchedOf<Tile> {
  using type = LaunchedTile;
};
template <template <class...> class S, class... T>
struct LaunchedOf<S<T...>> {
  using type = S<typename LaunchedOf<T>::type...>;
};
template <class T>
struct LaunchedOf<std::vector<T>> {
  using type = std::vector<typename LaunchedOf<T>::type>;
};
template <class T>
using Launched = typename LaunchedOf<T>::type;

// A struct as the struct that another template argument makes of it, field by field.
template <class To, class From>
To converted(const From& from);

// How one parameter P of the kernel function is keyed, passed and bound while tracing.
template <class P>
struct Parameter {
  static constexpr size_t most_arguments = 0;  // the most that pass() adds
  using Bound = std::decay_t<P>;
  template <class A>
  static Bound convert(const A& argument) {
    return static_cast<Bound>(argument);
  }
  static void pass(LaunchKey& key, ArgumentRef*&, const Bound& value) { key_of_constant(key, value); }
  static Bound bind(Tracer&, const Bound& value) { return value; }
};
template <>
struct Parameter<Array> {
  static constexpr size_t most_arguments = 1;
  using Bound = ArrayArgument;
  template <class A>
  static decltype(auto) convert(const A& argument) {
    return to_array_argument(argument);  // an ArrayArgument is not copied
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& value) {
    key_of_array(key, value);
    *next++ = value;
  }
  static Array bind(Tracer& tracer, const Bound& value) { return Array(add_array_parameter(tracer, value)); }
};
template <>
struct Parameter<Tile> {
  static constexpr size_t most_arguments = 1;
  using Bound = ScalarArgument;
  template <class A>
  static Bound convert(const A& argument) {
    return scalar_argument(argument);
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& value) {
    key.add(static_cast<uint64_t>(value.dtype));
    *next++ = value;
  }
  static Tile bind(Tracer& tracer, const Bound& value) {
    return Tile(add_scalar_parameter(tracer, value.dtype));
  }
};
// An array or number that may be missing; tracing knows whether it is present.
template <class T>
struct Parameter<std::optional<T>> {
  static constexpr size_t most_arguments = Parameter<T>::most_arguments;
  using Bound = std::optional<Launched<T>>;
  template <class A>
  static Bound convert(const A& argument) {
    if constexpr (requires { argument.has_value(); })
      return argument.has_value() ? Bound(Parameter<T>::convert(*argument)) : std::nullopt;
    else if constexpr (std::is_same_v<A, std::nullopt_t>)
      return std::nullopt;
    else
      return Parameter<T>::convert(argument);
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& value) {
    key.add(value.has_value());
    if (value) Parameter<T>::pass(key, next, *value);
  }
  static std::optional<T> bind(Tracer& tracer, const Bound& value) {
    if (!value) return std::nullopt;
    return Parameter<T>::bind(tracer, *value);
  }
};
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
// Parameters passed as a group. One word of the key records which are present.
template <class... T>
void pass_all(LaunchKey& key, ArgumentRef*& next, const Launched<T>&... values) {
  uint64_t there = 0;
  const auto note = [&]<class P>(const Launched<P>& value) {
    if constexpr (is_optional<P>) there = there * 2 + value.has_value();
  };
  const auto pass_one = [&]<class P>(const Launched<P>& value) {
    if constexpr (!is_optional<P>)
      Parameter<P>::pass(key, next, value);
    else if (value)
      Parameter<typename P::value_type>::pass(key, next, *value);
  };
  (note.template operator()<T>(values), ...);
  if constexpr ((is_optional<T> || ...)) key.add(there);
  (pass_one.template operator()<T>(values), ...);
}
template <class... T>
struct Parameter<std::tuple<T...>> {
  static constexpr size_t most_arguments = (Parameter<T>::most_arguments + ... + 0);
  using Bound = std::tuple<Launched<T>...>;
  template <class... A>
  static Bound convert(const std::tuple<A...>& arguments) {
    return std::apply([](const A&... each) { return Bound(Parameter<T>::convert(each)...); }, arguments);
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& values) {
    std::apply([&](const auto&... each) { pass_all<T...>(key, next, each...); }, values);
  }
  static std::tuple<T...> bind(Tracer& tracer, const Bound& values) {
    // Braces evaluate from left to right.
    return std::apply(
        [&](const auto&... each) { return std::tuple<T...>{Parameter<T>::bind(tracer, each)...}; }, values);
  }
};
// A list, which a launch compiles for its number of elements.
inline constexpr size_t most_listed = 16;
[[noreturn]] void refuse_list(size_t elements);
template <class T>
struct Parameter<std::vector<T>> {
  static constexpr size_t most_arguments = most_listed * Parameter<T>::most_arguments;
  using Bound = std::vector<Launched<T>>;
  template <class A>
  static Bound convert(const std::vector<A>& arguments) {
    Bound bound;
    for (const A& each : arguments) bound.push_back(Parameter<T>::convert(each));
    return bound;
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& values) {
    if (values.size() > most_listed) refuse_list(values.size());
    key.add(values.size());
    for (const Launched<T>& value : values) Parameter<T>::pass(key, next, value);
  }
  static std::vector<T> bind(Tracer& tracer, const Bound& values) {
    std::vector<T> bound;
    for (const Launched<T>& value : values) bound.push_back(Parameter<T>::bind(tracer, value));
    return bound;
  }
};
// A struct, whose fields are bound in their order.
template <class P>
concept StructParameter = Struct<P> && !has_key_words<P>;
template <StructParameter P>
struct Parameter<P> {
  using Fields = FieldTypes<P>;
  using Bound = Launched<P>;
  template <class... T>
  static constexpr size_t count_arguments(Types<T...>) {
    return (Parameter<T>::most_arguments + ... + 0);
  }
  static constexpr size_t most_arguments = count_arguments(Fields());
  static_assert(
      std::is_copy_assignable_v<P>,
      "a kernel's struct holds its fields by value: Array, Tile, std::optional of one, constants and "
      "structs of these, no references and nothing const");
  static_assert(
      most_arguments == 0 || !std::is_same_v<P, Bound>,
      "a kernel's struct with an Array or a Tile in it is a template of these types, and of types alone, so "
      "that a launch can fill it with tensors and numbers: "
      "template <class Array, class Tile> struct S { Array x; Tile n; };");
  template <class A>
  static decltype(auto) convert(const A& argument) {
    if constexpr (std::is_same_v<A, Bound>)
      return static_cast<const Bound&>(argument);
    else
      return converted<Bound>(argument);
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& values) {
    each(values, Fields(),
         [&]<class... T>(Types<T...>, const auto&... value) { pass_all<T...>(key, next, value...); });
  }
  static P bind(Tracer& tracer, const Bound& values) {
    return each(values, Fields(), [&]<class... T>(Types<T...>, const auto&... value) {
      return P{Parameter<T>::bind(tracer, value)...};
    });
  }

 private:
  template <class... T, class F>
  static decltype(auto) each(const Bound& values, Types<T...> types, const F& function) {
    return with_fields<sizeof...(T)>(values, [&](const auto&... value) { return function(types, value...); });
  }
};

template <class To, class From>
To converted_value(const From& from) {
  if constexpr (Struct<To> && !std::is_convertible_v<const From&, To>)
    return converted<To>(from);
  else if constexpr (is_optional<To> && is_optional<From>)
    return from ? To(converted_value<typename To::value_type>(*from)) : To();
  else if constexpr (is_vector<To> && !std::is_same_v<To, From>)
    return To(from.begin(), from.end());
  else
    return from;
}
template <class To, class From>
To converted(const From& from) {
  static_assert(is_struct<From>, "a launch takes a struct for a struct: launch(grid, {.x = x, .rows = 4})");
  if constexpr (is_struct<From>) {
    static_assert(field_count<To>() == field_count<From>(),
                  "a launch takes a struct with as many fields as the kernel's has");
    return with_fields(from, [&](const auto&... value) {
      return [&]<class... T>(Types<T...>) { return To{converted_value<T>(value)...}; }(FieldTypes<To>());
    });
  }
}

template <class From>
struct AsLaunched {
  template <Struct To>
  operator To() const {
    return converted<To>(from);
  }
  const From& from;
};
template <class From>
struct AsLaunched<std::optional<From>> {
  template <Struct To>
  operator std::optional<To>() const {
    return from ? std::optional<To>(converted<To>(*from)) : std::nullopt;
  }
  const std::optional<From>& from;
};
template <class P>
using ParameterOf = Parameter<std::remove_cvref_t<P>>;

}  // namespace detail

// A struct of tensors and numbers, or an optional one, as a field of a launch:
// launch(grid, {.x = x, .options = as_launched(options)}).
// It refers to fields, so use it within the launch's expression.
template <class S>
requires detail::Struct<S> || detail::is_optional<S> detail::AsLaunched<S> as_launched(const S& fields) {
  return {fields};
}

template <class... P>
class Kernel : public KernelBase {
 public:
  Kernel(const char* name, void (*function)(P...), Location location = Location::current())
      : KernelBase(name, location), function_(function) {}
  Kernel(const char* name, void (*function)(P...), Extents extents, Location location = Location::current())
      : KernelBase(name, location, extents), function_(function) {}

  // Compiles for these arguments if their key is new, then runs every block of the grid: on the CPU before it
  // returns, on a GPU in the current stream. All arrays must be on one device. Errors name the kernel
  // author's file and line.
  template <class... A>
  void launch(Grid grid, const A&... arguments) {
    static_assert(sizeof...(A) == sizeof...(P), "launch: give one argument for each parameter of the kernel");
    launch_bound(grid, detail::ParameterOf<P>::convert(arguments)...);
  }

  // The same for a kernel that takes a struct: launch(grid, {.query = query, .rows = 32}).
  void launch(Grid grid, const detail::Launched<std::remove_cvref_t<P>>&... arguments) requires(
      detail::StructParameter<std::remove_cvref_t<P>> || ...) {
    launch_bound(grid, arguments...);
  }

  // Returns the Tile IR of these arguments before any pass.
  template <class... A>
  Function trace(const A&... arguments) {
    static_assert(sizeof...(A) == sizeof...(P), "trace: give one argument for each parameter of the kernel");
    return trace_bound(detail::ParameterOf<P>::convert(arguments)...);
  }

 private:
  // Not templates: one of each a kernel, whatever it is called with.
  void launch_bound(Grid grid, const typename detail::ParameterOf<P>::Bound&... bound) {
    LaunchKey key;
    std::array<ArgumentRef, (detail::ParameterOf<P>::most_arguments + ... + 0)> passed;
    ArgumentRef* next = passed.data();
    (detail::ParameterOf<P>::pass(key, next, bound), ...);
    const auto body = [&](Tracer& tracer) {
      Body{function_, detail::ParameterOf<P>::bind(tracer, bound)...};
    };
    launch_call(grid, key, {passed.data(), next}, std::ref(body));
  }
  Function trace_bound(const typename detail::ParameterOf<P>::Bound&... bound) {
    return trace_call([&](Tracer& tracer) {
      Body{function_, detail::ParameterOf<P>::bind(tracer, bound)...};
    });
  }
  // A constructor, because braces evaluate parameters from left to right.
  struct Body {
    template <class... V>
    Body(void (*function)(P...), const V&... values) {
      function(values...);
    }
  };
  void (*function_)(P...);
};

}  // namespace tile
