// The passes that all targets share, in order.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace tile {

struct PipelineOptions {
  // Also split loops in which only some iterations' loads or stores may cross an array's edge.
  bool split_tails = false;
};

// Each pass returns whether it changed the function. TILE_DUMP=ir prints the text after each change to
// stderr.
void run_passes(Function& function, const PipelineOptions& options = {});

// The text after each pass that changed something; the first is the input function.
struct Stage {
  std::string_view pass;
  std::string text;
};
std::vector<Stage> stages_of(const Function& function, const PipelineOptions& options = {});

// Runs one pass by its name in the table, for tests and tools; an unknown name is an error.
bool run_pass(std::string_view name, Function& function, const PipelineOptions& options = {});

}  // namespace tile
