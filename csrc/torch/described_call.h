// Launches of generated code, whose arrays are described beforehand: a call then only reads the addresses of
// tensors, and the numbers that were not known before.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/array_key.h"
#include "runtime/call_key.h"

namespace tile {

inline constexpr size_t most_described = 64;        // arguments of a launch
inline constexpr int64_t most_positions = 1 << 16;  // a larger index is a mistake, not a list of that length

struct CallLayout {
  // A value that is known beforehand, or the position of a run-time number.
  struct Number {
    int64_t value = 0;  // the bits of a double if it is a float
    int position = -1;  // -1: it is known
  };
  // A tensor as far as an array's words in the key depend on it.
  struct Kind {
    at::ScalarType dtype = at::kFloat;
    c10::DeviceType device = at::kCPU;
    bool operator==(const Kind&) const = default;
  };
  struct Array {
    size_t tensor = 0;
    Number offset;
    std::array<Number, max_array_rank> sizes, strides;
    bool known = true;  // the sizes and strides are

    // These follow from the sizes, the strides and the kind of the last tensor. The caller guards them.
    ArrayArgument argument;  // without address and device index
    uint64_t word = 0;       // of the key, for an aligned address
    bool far = false;
    int64_t first = 0, last = -1;  // the smallest and the largest index of an element, without the offset
    std::optional<Kind> kind;
  };
  struct Scalar {
    DType dtype = DType::i32;
    Number value;
  };
  // A parameter of the kernel: its place among arrays, or among scalars.
  struct Parameter {
    bool is_array;
    size_t at;
  };

  std::vector<Parameter> parameters;
  std::vector<Array> arrays;
  std::vector<Scalar> scalars;
  std::array<Number, 3> grid;
  size_t tensors = 0;
  std::vector<bool> floats;  // for each run-time number, true if it is a float
};

// Fills a layout parameter by parameter.
class LayoutBuilder {
 public:
  // prefix: begins each error.
  LayoutBuilder(CallLayout& layout, std::string prefix) : layout_(layout), prefix_(std::move(prefix)) {}
  // Returns the run-time number of a text: n0, n1, ...
  CallLayout::Number run_time(std::string_view text, bool floating = false);
  void add_array(int64_t tensor, CallLayout::Number offset, const std::vector<CallLayout::Number>& sizes,
                 const std::vector<CallLayout::Number>& strides);
  void add_scalar(DType dtype, CallLayout::Number value);
  void finish();  // after the grid; error: a tensor or a number is missing

 private:
  std::string entry() const;

  CallLayout& layout_;
  std::string prefix_;
  std::vector<std::optional<bool>> floats_;
};

// The arguments of one launch.
class DescribedArguments {
 public:
  // what, name: begin each error. They live as long as this.
  DescribedArguments(CallLayout& layout, std::string_view what, const std::string& name)
      : layout_(layout), what_(what), name_(name) {}
  DescribedArguments(const DescribedArguments&) = delete;

  ArgumentRefs refs() const { return {refs_, passed_}; }
  Grid grid() const { return {value(layout_.grid[0]), value(layout_.grid[1]), value(layout_.grid[2])}; }
  static bool is_empty(const Grid& grid) { return std::min({grid.x, grid.y, grid.z}) == 0; }

 protected:
  std::string prefix() const;
  // tensor(i) returns the address of the tensor i. The numbers are there, and nothing else runs meanwhile.
  template <class F>
  void add_all(const F& tensor) {
    for (const CallLayout::Parameter& parameter : layout_.parameters)
      if (parameter.is_array) {
        CallLayout::Array& array = layout_.arrays[parameter.at];
        add(array, *tensor(array.tensor));
      } else {
        add(layout_.scalars[parameter.at]);
      }
    key_.end();
  }
  int64_t value(const CallLayout::Number& number) const {
    return number.position < 0 ? number.value : numbers_[static_cast<size_t>(number.position)];
  }

  CallLayout& layout_;
  c10::SmallVector<int64_t, 32> numbers_;
  size_t passed_ = 0;
  CallKey key_;

 private:
  void describe(CallLayout::Array& array, CallLayout::Kind kind) const;
  [[noreturn]] void fail_bounds(const CallLayout::Array& array) const;
  char* data_of_other(const at::Tensor& tensor, size_t i) const;
  void add(const CallLayout::Scalar& scalar);
  [[gnu::always_inline]] void add(CallLayout::Array& array, const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const c10::Device device = impl.device();
    const bool plain = impl.layout() == at::kStrided && !impl.is_python_dispatch() && !tensor.is_neg() &&
                       (device.is_cpu() || device.is_cuda());
    char* data;
    if (plain) [[likely]]
      data = static_cast<char*>(tensor.data_ptr());
    else
      data = data_of_other(tensor, array.tensor);
    const CallLayout::Kind kind{c10::typeMetaToScalarType(impl.dtype()), device.type()};
    if (!array.known || array.kind != kind) describe(array, kind);
    auto* argument = new (arrays_ + array_count_++ * sizeof(ArrayArgument)) ArrayArgument(array.argument);
    const int64_t offset = value(array.offset), bytes = info(argument->dtype).bytes;
    if (array.last >= 0) {  // an empty array may begin anywhere
      const auto held = static_cast<int64_t>(impl.unsafe_storage().nbytes()) / bytes;
      int64_t begin;
      // A tensor without elements has no address, whatever its storage holds. One that stands for a GPU's has
      // none either.
      if ((!data && plain) || __builtin_add_overflow(offset, impl.storage_offset(), &begin) ||
          begin < -array.first || begin >= held - array.last) [[unlikely]]
        fail_bounds(array);
      data += offset * bytes;
    }
    argument->data = data;
    argument->device_index = device.is_cuda() ? device.index() : 0;
    key_.words.add(with_data(array.word, argument->data));
    key_.note(array.far ? CallKey::far_array : CallKey::near_array);
    refs_[passed_++] = *argument;
  }

  std::string_view what_;
  const std::string& name_;
  size_t array_count_ = 0, scalar_count_ = 0;
  ArgumentRef refs_[most_described];
  alignas(ArrayArgument) std::byte arrays_[most_described * sizeof(ArrayArgument)];
  alignas(ScalarArgument) std::byte scalars_[most_described * sizeof(ScalarArgument)];
};

}  // namespace tile
