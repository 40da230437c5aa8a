// Layouts, then text.
#include "cuda/program.h"

#include "cuda/emitter.h"

namespace tile::cuda {

Program::Program(const Function& function, const Target& target, const Configuration& configuration) {
  const StagingPlan staging(function);
  const LayoutPlan plan(function, staging, target.max_threads / 32, configuration.warps);
  const Emitter emitter(function, staging, plan, target, configuration);
  text = emitter.text();
  entry = emitter.entry();
  threads = plan.threads();
  shared_bytes = emitter.shared_bytes();
  for (const Value* parameter : function.body().arguments) parameters.push_back(parameter->type);
}

}  // namespace tile::cuda
