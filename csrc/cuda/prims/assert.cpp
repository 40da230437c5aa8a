// assert: all threads find the first false element, one thread reports it, and the block exits.
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

void emit_assert(Emitter& emitter, const Op& op) {
  emitter.need("assert.cuh");
  const Value* condition = op.operands[0];
  const int blocks = emitter.plan().cluster();
  // All CTAs of a cluster exit together, but none may exit before all have started.
  const std::string met = emitter.has_met() ? "" : str("wait_in_cluster(", line_number(op), "); ");
  const auto leave = [&](const std::string& test, const std::string& element) {
    const size_t number = emitter.add_assertion(op);
    emitter.line(op, str("if (", test, ") { ", met, "return report_failure<", blocks, ">(failures, ", number,
                         ", ", element, "); }"));
  };
  const std::string name = emitter.name(condition);
  if (condition->type.is_scalar()) return leave("!" + name, "0");
  const std::string first = emitter.temporary();
  const bool across = emitter.layout_of(condition).across_blocks();
  emitter.line(op, str("const i32 ", first, " = ",
                       across ? str("first_false_in_cluster<", emitter.layout(emitter.layout_of(condition)),
                                    ", ", blocks, ">(", name, ", ", line_number(op), ", ",
                                    emitter.cluster_memory(op, blocks * 4), ");")
                              : str("first_false(", name, ", ", line_number(op), ");")));
  leave(first + " != no_element", first);
}

const AddLoweringRule assert_{{.name = "assert", .emit = emit_assert, .across = true, .exchanges = true}};

}  // namespace
}  // namespace tile::cuda
