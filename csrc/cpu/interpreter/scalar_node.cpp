// Computes scalars with the same table functions as tiles.
#include "cpu/interpreter/scalar_node.h"

#include "cpu/interpreter/steps.h"

namespace tile::cpu {
namespace {

struct ScalarNode final : OpNode {
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

std::unique_ptr<OpNode> scalar_node(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ScalarNode>();
  for (const StepFunction& step : step_functions(op)) node->functions.push_back(step.variants[0]);
  for (const Value* operand : op.operands) node->in.push_back(lower.scalar(operand));
  node->out = lower.scalar(op.results[0]);
  return node;
}

}  // namespace tile::cpu
