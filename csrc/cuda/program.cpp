// Layouts, then text.
#include "cuda/program.h"

#include "cuda/emitter.h"
#include "cuda/narrow.h"

namespace tile::cuda {

Program::Program(const Function& given, const Target& target, const Configuration& configuration) {
  const Function function = with_narrow_tiles(given);
  const KernelArrays arrays(function);
  const StagingPlan staging(function, arrays);
  const LayoutPlan plan(function, arrays, staging, target.max_threads / 32, configuration.warps);
  const Emitter emitter(function, arrays, staging, plan, target, configuration);
  text = emitter.text();
  entry = emitter.entry();
  threads = plan.threads();
  multiplies = plan.multiplies();
  shared_bytes = static_cast<int>(emitter.shared_bytes());
  for (const Value* parameter : function.body().arguments) parameters.push_back(parameter->type);
}

}  // namespace tile::cuda
