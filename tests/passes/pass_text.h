// Runs passes on the text form.
#pragma once
#include <gtest/gtest.h>

#include "ir/print.h"
#include "passes/pipeline.h"

namespace tile {

// Returns the text after one pass of the pipeline, and checks that the pass reports correctly whether it
// changed anything.
inline std::string after(std::string_view pass, std::string_view text, const PipelineOptions& options = {}) {
  Function function = parse(text);
  std::string before = print(function, false);
  bool changed = run_pass(pass, function, options);
  std::string result = print(function, false);
  if (!changed) EXPECT_EQ(before, result) << pass << " changed the function and did not say so";
  return result;
}
inline std::string optimised(std::string_view text, const PipelineOptions& options = {}) {
  Function function = parse(text);
  run_passes(function, options);
  return print(function, false);
}

}  // namespace tile
