// Tells which operations of torch compute no numbers.
#include "torch/transparent.h"

#include <algorithm>
#include <set>

namespace tile {

bool is_transparent(const c10::OperatorName& name, const at::RecordFunction& function) {
  static const std::set<std::string_view> made_of_copies{
      "aten::clone",      "aten::contiguous",    "aten::to",
      "aten::_to_copy",   "aten::reshape",       "aten::flatten",
      "aten::empty_like", "aten::zeros_like",    "aten::full_like",
      "aten::ones_like",  "aten::new_empty",     "aten::new_zeros",
      "aten::new_full",   "aten::new_ones",      "aten::new_empty_strided",
      "aten::size",       "aten::stride",        "aten::result_type",
      "aten::resize_",    "aten::record_stream", "aten::_unsafe_view"};
  if (made_of_copies.count(name.name)) return true;
  const auto schema = function.operator_schema();
  if (!schema || schema->returns().empty()) return false;
  return std::all_of(schema->returns().begin(), schema->returns().end(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

}  // namespace tile
