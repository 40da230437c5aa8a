// Implements what a launch in Python refuses: tensors that no kernel takes, and writes to memory that is
// read-only, that another argument reaches too, or that holds several elements at one address.
#include "python/kernel_call.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <c10/core/ScalarType.h>

#include "runtime/overlap.h"
#include "torch/args.h"

namespace tile::python {
namespace {

// The address range of an array; both are 0 if it has no element.
struct Extent {
  uintptr_t begin, end;
  bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }
};
Extent extent_of(const ArrayArgument& array) {
  int64_t reach = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(array.rank); ++axis) {
    if (array.sizes[axis] == 0) return {0, 0};
    reach += (array.sizes[axis] - 1) * array.strides[axis];  // strides of tensors are not negative
  }
  const auto begin = reinterpret_cast<uintptr_t>(array.data);
  return {begin, begin + static_cast<uintptr_t>((reach + 1) * info(array.dtype).bytes)};
}

// Returns true if each stride exceeds the reach of all later axes, as in a contiguous tensor.
bool in_order(const ArrayArgument& array) {
  int64_t reach = 0;
  for (size_t axis = static_cast<size_t>(array.rank); axis-- > 0;) {
    if (array.sizes[axis] == 1) continue;
    if (array.strides[axis] <= reach) return false;
    reach += array.strides[axis] * (array.sizes[axis] - 1);
  }
  return true;
}
// Returns true if that holds for some order of the axes: then no two elements share memory.
bool nested(const ArrayArgument& array) {
  std::array<std::pair<int64_t, int64_t>, max_array_rank> axes;  // stride and extent, smallest first
  size_t count = 0;
  for (size_t axis = static_cast<size_t>(array.rank); axis-- > 0;) {
    if (array.sizes[axis] == 1) continue;
    size_t at = count++;
    for (; at > 0 && axes[at - 1].first > array.strides[axis]; --at) axes[at] = axes[at - 1];
    axes[at] = {array.strides[axis], array.sizes[axis]};
  }
  int64_t reach = 0;
  for (size_t i = 0; i < count; ++i) {
    if (axes[i].first <= reach) return false;
    reach += axes[i].first * (axes[i].second - 1);
  }
  return true;
}

std::string tuple_of(const std::array<int64_t, max_array_rank>& numbers, int rank) {
  std::string text;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) text += str(i ? ", " : "", numbers[i]);
  return str("(", text, rank == 1 ? ",)" : ")");
}

}  // namespace

// Returns a text such as "'out'", or "argument #1" for a kernel without parameter names.
std::string Call::parameter(size_t place) const {
  const size_t i = owner_[place];
  const PyGILState_STATE state = PyGILState_Ensure();
  std::string text = str("argument #", i);
  {
    const Owned names(PyObject_GetAttrString(self_, "parameters"));
    if (names && PyTuple_Check(names.get()) && static_cast<Py_ssize_t>(i) < PyTuple_GET_SIZE(names.get()))
      if (const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(i))))
        text = str("'", name, "'");
    PyErr_Clear();
  }
  PyGILState_Release(state);
  return text;
}
void Call::refuse(size_t place, const std::string& why) const {
  fail(kernel_.where(), ErrorKind::value, "launch of ", kernel_.name(), ": it writes ", parameter(place),
       why);
}

uint64_t Call::owners(uint64_t which) const {
  uint64_t given = 0;
  for (; which; which &= which - 1) given |= uint64_t{1} << owner_[std::countr_zero(which)];
  return given;
}

void Call::check_written(uint64_t which, uint64_t read) const {
  if (const uint64_t refused = which & read_only_) [[unlikely]]
    refuse(static_cast<size_t>(std::countr_zero(refused)),
           ", which is read-only memory; pass an array that may be written, such as a copy of it");
  if (!which) return;
  std::array<Extent, most_arguments> extents;
  for (size_t i = 0; i < passed_; ++i)
    extents[i] = refs_[i].array ? extent_of(*refs_[i].array) : Extent{0, 0};
  for (uint64_t rest = which; rest; rest &= rest - 1) {
    const auto at = static_cast<size_t>(std::countr_zero(rest));
    const ArrayArgument& array = *refs_[at].array;
    if (!in_order(array) && !nested(array) && overlaps_itself(placed(array))) [[unlikely]]
      refuse(at,
             str(" of shape ", tuple_of(array.sizes, array.rank), " and strides ",
                 tuple_of(array.strides, array.rank),
                 ", which has several elements at one address, as an expanded tensor does; pass a clone() of "
                 "it"));
    for (size_t other = 0; other < passed_; ++other) {
      // An array that the kernel never touches may overlap: it may stand in for a missing one.
      if (other == at || !((which | read) >> other & 1) || !extents[at].meets(extents[other])) continue;
      if (!overlap(placed(array), placed(*refs_[other].array))) continue;
      refuse(at, str(owner_[at] == owner_[other] ? std::string(", which holds arrays that overlap")
                                                 : str(", which overlaps ", parameter(other)),
                     " in memory; pass a clone() of one of them"));
    }
  }
}

void Call::explain(size_t i, const at::Tensor& tensor, const Error& error) const {
  const auto name = [&] { return c10::getDtypeNames(tensor.scalar_type()).first; };
  const bool known = std::any_of(scalar_type_table.begin(), scalar_type_table.end(),
                                 [&](const auto& each) { return each.first == tensor.scalar_type(); });
  const std::string text =
      tensor.layout() != at::kStrided
          ? str("a tensor of layout ", c10::str(tensor.layout()), " is not supported; pass its to_dense()")
      : tensor.is_quantized()
          ? str("a quantised tensor (", name(), ") is not supported; pass its int_repr() or dequantize()")
      : tensor.is_complex() ? str("Unsupported array dtype ", name(), "; pass torch.view_as_real of it")
      : !known              ? str("Unsupported array dtype ", name(),
                     "; convert it to bool, an integer or a real floating dtype")
      : tensor.is_meta() ? "a tensor on meta has no memory; launch on one of cpu or cuda, or give it to "
                           "kernel.check(...) or kernel.ir(...)"
                         : std::string(error.what());
  fail(error.kind(), place_of(i), ": ", text);
}

}  // namespace tile::python
