// Kernel: a function over arrays, tiles and constants, compiled once a key and launched over a grid.
// The C++ type of a parameter says when it is known: Array and Tile at run time, anything else while tracing.
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

namespace tile {

class Executable;
class Tracer;
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
  size_t compiled_count() const;  // kernels compiled so far, all keys
  // The same of every Kernel in the process, by name.
  static std::map<std::string, size_t> compiled_counts();

 protected:
  // Returns a bit for each of the first 64 arguments, set if the launch wrote its memory.
  uint64_t launch_call(Grid grid, const LaunchKey& key, ArgumentRefs arguments, const TraceBody& body);
  // The same, but first calls check(call, touched), which may refuse the launch.
  using WriteCheck = void (*)(const void* call, const Touched& touched);
  uint64_t launch_call(Grid grid, const LaunchKey& key, ArgumentRefs arguments, const TraceBody& body,
                       WriteCheck check, const void* call);
  Touched touched_of(const TraceBody& body) const;
  Function trace_call(const TraceBody& body) const;  // after no pass

 private:
  struct State;
  Function compiled(const TraceBody& body) const;  // after all passes
  const Executable& compile(const Target& target, const LaunchKey& key, const TraceBody& body);
  std::unique_ptr<State> state_;
};

// The function after tracing and each pass, for inspection and docs.
std::string compiled_text(const Function& traced);

// How an argument is passed. csrc/torch adds at::Tensor through the overload found by lookup of its
// namespace.
inline const ArrayArgument& to_array_argument(const ArrayArgument& array) { return array; }

namespace detail {

Value* add_array_parameter(Tracer& tracer, const ArrayArgument& array);
Value* add_scalar_parameter(Tracer& tracer, DType dtype);
void key_of_array(LaunchKey& key, const ArrayArgument& array);

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
    key_words(key, value);  // a user's type: found by lookup of its namespace
  }
}

// How one parameter P of the kernel function is keyed, passed and bound while tracing.
template <class P>
struct Parameter {
  static constexpr size_t most_arguments = 0;  // that pass() adds
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
    return to_array_argument(argument);  // an ArrayArgument itself: no copy
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
// An array or a number that may be missing; whether it is there is known while tracing.
template <class T>
struct Parameter<std::optional<T>> {
  static constexpr size_t most_arguments = Parameter<T>::most_arguments;
  using Bound = std::optional<typename Parameter<T>::Bound>;
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
// Parameters that travel together. One word of the key says which are there.
template <class... T>
struct Parameter<std::tuple<T...>> {
  static constexpr size_t most_arguments = (Parameter<T>::most_arguments + ... + 0);
  using Bound = std::tuple<typename Parameter<T>::Bound...>;
  template <class... A>
  static Bound convert(const std::tuple<A...>& arguments) {
    return std::apply([](const A&... each) { return Bound(Parameter<T>::convert(each)...); }, arguments);
  }
  static void pass(LaunchKey& key, ArgumentRef*& next, const Bound& values) {
    uint64_t there = 0;
    const auto note = [&]<class P>(const typename Parameter<P>::Bound& value) {
      if constexpr (is_optional<P>) there = there * 2 + value.has_value();
    };
    const auto pass_one = [&]<class P>(const typename Parameter<P>::Bound& value) {
      if constexpr (!is_optional<P>)
        Parameter<P>::pass(key, next, value);
      else if (value)
        Parameter<typename P::value_type>::pass(key, next, *value);
    };
    std::apply(
        [&](const auto&... each) {
          (note.template operator()<T>(each), ...);
          key.add(there);
          (pass_one.template operator()<T>(each), ...);
        },
        values);
  }
  static std::tuple<T...> bind(Tracer& tracer, const Bound& values) {
    // Braces, because they bind from left to right.
    return std::apply(
        [&](const auto&... each) { return std::tuple<T...>{Parameter<T>::bind(tracer, each)...}; }, values);
  }
};

}  // namespace detail

template <class... P>
class Kernel : public KernelBase {
 public:
  Kernel(const char* name, void (*function)(P...), Location location = Location::current())
      : KernelBase(name, location), function_(function) {}
  Kernel(const char* name, void (*function)(P...), Extents extents, Location location = Location::current())
      : KernelBase(name, location, extents), function_(function) {}

  // Compiles for these arguments if they are new, then runs every block of the grid: on the CPU before it
  // returns, on a GPU in the current stream. All arrays must be on one device. Errors carry the kernel
  // author's file:line.
  template <class... A>
  void launch(Grid grid, const A&... arguments) {
    static_assert(sizeof...(A) == sizeof...(P), "launch: give one argument for each parameter of the kernel");
    launch_bound(grid, detail::Parameter<P>::convert(arguments)...);
  }

  // The Tile IR that these arguments would compile, before any pass.
  template <class... A>
  Function trace(const A&... arguments) {
    static_assert(sizeof...(A) == sizeof...(P), "trace: give one argument for each parameter of the kernel");
    return trace_bound(detail::Parameter<P>::convert(arguments)...);
  }

 private:
  // Not templates: one of each a kernel, whatever it is called with.
  void launch_bound(Grid grid, const typename detail::Parameter<P>::Bound&... bound) {
    LaunchKey key;
    std::array<ArgumentRef, (detail::Parameter<P>::most_arguments + ... + 0)> passed;
    ArgumentRef* next = passed.data();
    (detail::Parameter<P>::pass(key, next, bound), ...);
    const auto body = [&](Tracer& tracer) { Body{function_, detail::Parameter<P>::bind(tracer, bound)...}; };
    launch_call(grid, key, {passed.data(), next}, std::ref(body));
  }
  Function trace_bound(const typename detail::Parameter<P>::Bound&... bound) {
    return trace_call([&](Tracer& tracer) { Body{function_, detail::Parameter<P>::bind(tracer, bound)...}; });
  }
  // A constructor, because braces bind parameters from left to right.
  struct Body {
    template <class... V>
    Body(void (*function)(P...), const V&... values) {
      function(values...);
    }
  };
  void (*function_)(P...);
};

}  // namespace tile
