// Implements what a launch in Python refuses: tensors that no kernel takes, and writes to memory that is
// read-only, that another argument reaches too, or that holds several elements at one address.
#include "python/kernel_call.h"

#include <algorithm>
#include <bit>
#include <optional>

#include <c10/core/ScalarType.h>

#include "runtime/overlap.h"
#include "torch/args.h"

namespace tile::python {
namespace {

std::string tuple_of(const std::array<int64_t, max_array_rank>& numbers, int rank) {
  std::string text;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) text += str(i ? ", " : "", numbers[i]);
  return str("(", text, rank == 1 ? ",)" : ")");
}

}  // namespace

// Returns a text such as "'out'", or "argument #1" for a kernel without parameter names.
std::string Call::parameter(size_t position) const {
  const size_t i = owner_[position];
  const std::optional<std::string> name = name_of(i);
  return name ? str("'", *name, "'") : str("argument #", i);
}
void Call::refuse(size_t position, const std::string& why) const {
  fail(kernel_.where(), ErrorKind::value, "launch of ", kernel_.name(), ": it writes ", parameter(position),
       why);
}

uint64_t Call::owners(uint64_t which) const {
  uint64_t given = 0;
  for (; which; which &= which - 1) given |= uint64_t{1} << owner_[std::countr_zero(which)];
  return given;
}

void Call::check_written(const Touched& touched) const {
  if (const uint64_t refused = touched.written & read_only_) [[unlikely]]
    refuse(static_cast<size_t>(std::countr_zero(refused)),
           ", which is read-only memory; pass an array that may be written, such as a copy of it");
  for (uint64_t rest = touched.written; rest; rest &= rest - 1) {
    const auto at = static_cast<size_t>(std::countr_zero(rest));
    const ArrayArgument& array = *refs_[at].array;
    if (overlaps_itself(strided_memory(array))) [[unlikely]]
      refuse(at,
             str(" of shape ", tuple_of(array.sizes, array.rank), " and strides ",
                 tuple_of(array.strides, array.rank),
                 ", which has several elements at one address, as an expanded tensor does; pass a clone() of "
                 "it"));
    // An array that the kernel never touches may overlap: it may be a substitute for a missing one.
    for (uint64_t others = touched.written | touched.read; others; others &= others - 1) {
      const auto other = static_cast<size_t>(std::countr_zero(others));
      if (other == at || !overlap(strided_memory(array), strided_memory(*refs_[other].array))) continue;
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
      : tensor.is_meta()    ? "a tensor on meta has no memory; launch on one of cpu or cuda, or give it to "
                              "kernel.check(...) or kernel.ir(...)"
                            : std::string(error.what());
  fail(error.kind(), argument_text(i), ": ", text);
}

}  // namespace tile::python
