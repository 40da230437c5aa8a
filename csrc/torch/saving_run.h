// Runs an operator so that its launches save tiles for the gradient that is derived from them.
#pragma once
#include <ATen/core/Tensor.h>

#include "runtime/launch_record.h"
#include "torch/record.h"
#include "torch/saving_launches.h"
#include "torch/storage_memory.h"

namespace tile {

// Fills the results of the operator as fill_results() does, and the last one, a list, with what is saved: one
// number that says for which launches, and their tiles. The list is empty if nothing is saved.
void fill_and_save(const OperatorRecord& op, size_t base, BoxedValues& stack);

// Returns what each launch saved, without a kernel where it saved nothing. Returns an empty list if the saved
// tensors are not those of these launches.
std::vector<SavedLaunch> saved_launches(const std::vector<const RecordedLaunch*>& launches,
                                        const std::vector<at::Tensor>& saved);

}  // namespace tile
