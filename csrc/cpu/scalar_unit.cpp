// Scalars through the same table functions as tiles.
#include "cpu/scalar_unit.h"

#include "cpu/steps.h"

namespace tile::cpu {
namespace {

struct ScalarUnit final : Unit {
  std::vector<ChunkFunction> functions;
  std::vector<int> in;
  int out;
  Signal run(Frame& frame) const override {
    char* to = frame.scalars[static_cast<size_t>(out)].bytes;
    Chunk call{1, 1, to, 0, {}, {}};
    for (size_t k = 0; k < in.size(); ++k) call.in[k] = frame.scalars[static_cast<size_t>(in[k])].bytes;
    Scalar result;
    for (ChunkFunction function : functions) {
      call.out = result.bytes;
      function(call);
      call.in[0] = result.bytes;
    }
    frame.scalars[static_cast<size_t>(out)] =
        functions.empty() ? frame.scalars[static_cast<size_t>(in[0])] : result;
    return Signal::next;
  }
};

}  // namespace

std::unique_ptr<Unit> scalar_unit(Lower& lower, const Op& op) {
  auto unit = std::make_unique<ScalarUnit>();
  for (const StepFunction& step : step_functions(op)) unit->functions.push_back(step.variants[0]);
  for (const Value* operand : op.operands) unit->in.push_back(lower.scalar(operand));
  unit->out = lower.scalar(op.results[0]);
  return unit;
}

}  // namespace tile::cpu
