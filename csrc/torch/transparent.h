// Operations of torch that compute no numbers.
#pragma once
#include <ATen/record_function.h>

namespace tile {

// Returns true for operations that only make views or new memory, or that are made of such ones and of copy_.
bool is_transparent(const c10::OperatorName& name, const at::RecordFunction& function);

}  // namespace tile
