// load and store of tiles, in vectors if layout and memory allow it.
#include <numeric>

#include "cuda/access_text.h"
#include "cuda/lowering_rule.h"
#include "cuda/pipeline.h"

namespace tile::cuda {
namespace {

void emit_load_scalar(Emitter& emitter, const Op& op) {
  emitter.need("memory.cuh");
  emitter.result(op, str("load_scalar<", flags_text(op, emitter.facts(op.operands[0])), ">(",
                         emitter.name(op.operands[0]), ", ", pad_text(op), ", ", line_number(op), ")"));
}
void emit_load(Emitter& emitter, const Op& op) {
  if (const Staged* staged = emitter.staging().of(op)) return emit_staged_load(emitter, *staged);
  if (op.results[0]->type.is_scalar()) return emit_load_scalar(emitter, op);
  const Layout& layout = emitter.plan().access(op);
  emitter.result_in(op, layout, load_text(emitter, op, layout));
}

void emit_store(Emitter& emitter, const Op& op) {
  emitter.need("memory.cuh");
  ArrayFacts facts = emitter.facts(op.operands[0]);
  const Type& type = op.type(1);
  const std::string array = emitter.name(op.operands[0]), line = line_number(op);
  const Layout& layout = type.is_scalar() ? emitter.layout_of(op.operands[1]) : emitter.plan().access(op);
  const std::string once = group_text(emitter, layout);
  if (type.is_scalar())
    return emitter.line(op, str(once, "store_scalar<", emitter.layout(layout), ">(", array, ", ",
                                emitter.name(op.operands[1]), ", ", line, ");"));
  const std::string value = emitter.in_layout(op, op.operands[1], layout);
  emitter.line(op, str(once, "store<", access_width(facts, type, op.integers("steps"), layout), ", ",
                       flags_text(op, facts), ">(", array, ", ", start_text(emitter, op, 2), ", ", value,
                       ", ", line, ");"));
}

}  // namespace

std::string load_text(Emitter& emitter, const Op& op, const Layout& layout) {
  emitter.need("memory.cuh");
  const ArrayFacts facts = emitter.facts(op.operands[0]);
  const Type& type = op.results[0]->type;
  return str("load<", emitter.layout(layout), ", ", access_width(facts, type, op.integers("steps"), layout),
             ", ", flags_text(op, facts), ">(", emitter.name(op.operands[0]), ", ",
             start_text(emitter, op, 1), ", ", pad_text(op), ", ", line_number(op), ")");
}

namespace {

// Returns the template argument for the elements that a thread moves together: "8, ", or nothing.
std::string run_text(Emitter& emitter, const Op& op, const Layout& layout) {
  const Run run = emitter.plan().run(op);
  const int width = run.width > 1 ? std::gcd(run.width, layout.vector_along(run.axis)) : 1;
  return width > 1 ? str(width, ", ") : "";
}

void emit_gather(Emitter& emitter, const Op& op) {
  emitter.need("memory.cuh");
  const Layout& layout = emitter.layout_of(op.results[0]);
  const ElementsText text = elements_text(emitter, op, 1, layout);
  const Type& type = op.results[0]->type;
  const std::string run = run_text(emitter, op, layout);
  emitter.result(
      op, str(run.empty() ? "gather<" : "gather_runs<", run, flags_text(op, emitter.facts(op.operands[0])),
              ", ", emitter.layout(layout), ">(", emitter.name(op.operands[0]), ", ", pad_text(op), ", ",
              line_number(op), ", ", text.mask, text.index, ")", type.is_scalar() ? ".x[0]" : ""));
}
void emit_scatter(Emitter& emitter, const Op& op) {
  emitter.need("memory.cuh");
  const Layout& layout = emitter.layout_of(op.operands[1]);
  const ElementsText text = elements_text(emitter, op, 2, layout);
  const std::string run = run_text(emitter, op, layout);
  const std::string function =
      run.empty() ? "scatter" : str("scatter_runs<", run, flags_text(op, emitter.facts(op.operands[0])), ">");
  emitter.line(op, str(function, "(", emitter.name(op.operands[0]), ", ",
                       emitter.in_layout(op, op.operands[1], layout), ", ", line_number(op), ", ", text.mask,
                       text.index, ");"));
}

const Value* loaded(const Op& op) { return op.results[0]; }
const Value* stored(const Op& op) { return op.operands[1]; }
const AddLoweringRule load_{
    {.name = "load", .emit = emit_load, .across = true, .grouped = true, .accessed = loaded}};
const AddLoweringRule store_{
    {.name = "store", .emit = emit_store, .across = true, .grouped = true, .accessed = stored}};
const AddLoweringRule gather_{
    {.name = "gather", .emit = emit_gather, .relate = relate_elements, .across = true, .grouped = true}};
const AddLoweringRule scatter_{
    {.name = "scatter", .emit = emit_scatter, .relate = relate_elements, .across = true}};

}  // namespace
}  // namespace tile::cuda
