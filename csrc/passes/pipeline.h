// The passes that every target shares, in order.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace tile {

struct PipelineOptions {
  bool split_tails =
      false;  // also give loops whose loads or stores may cross an edge a loop of their own for it
};

// Each pass returns whether it changed the function. TILE_DUMP=ir prints the text after each change to
// stderr.
void run_passes(Function& function, const PipelineOptions& options = {});

// The text after each pass that changed something; the first is the function as it came.
struct Stage {
  std::string_view pass;
  std::string text;
};
std::vector<Stage> stages_of(const Function& function, const PipelineOptions& options = {});

// One pass by its name in the table, for tests and tools; error: no such pass.
bool run_pass(std::string_view name, Function& function, const PipelineOptions& options = {});

}  // namespace tile
