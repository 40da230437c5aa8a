// Layouts, then text.
#include "cuda/program.h"

#include "cuda/emitter.h"

namespace tile::cuda {

Program::Program(const Function& function, const Target& target) {
  const KernelArrays arrays(function);
  const StagingPlan staging(function, arrays);
  const LayoutPlan plan(function, arrays, staging, target.max_threads / 32);
  const Emitter emitter(function, arrays, staging, plan, target);
  text = emitter.text();
  entry = emitter.entry();
  threads = plan.threads();
  shared_bytes = static_cast<int>(emitter.shared_bytes());
  for (const Value* parameter : function.body().arguments) parameters.push_back(parameter->type);
}

}  // namespace tile::cuda
