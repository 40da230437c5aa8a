// Loops and branches. Carried values are the variables of the loop's results; the region's arguments are
// aliases of them.
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "cuda/pipeline.h"
#include "cuda/prefetch.h"
#include "cuda/spilled.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Declares "T name = value;" for each carried value, in the layout of the results.
void declare(Emitter& emitter, const Op& op, size_t first_initial, SpilledTiles* spilled = nullptr) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value *result = op.results[i], *initial = op.operands[first_initial + i];
    const std::string value = result->type.is_scalar()
                                  ? emitter.name(initial)
                                  : emitter.in_layout(op, initial, emitter.layout_of(result));
    std::string type = emitter.type(result->type, emitter.layout_of(result)) + " ";
    if (spilled && spilled->has(i)) spilled->declare(i), type.clear();
    emitter.line(op, str(type, emitter.name(result), " = ", value, ";"));
  }
}

// Assigns the terminator's operands to the results as a parallel copy: all are read before one is written.
void assign(Emitter& emitter, const Op& end, const std::vector<Value*>& to, size_t count) {
  std::vector<std::string> values;
  for (size_t i = 0; i < count; ++i) {
    const Value *result = to[i], *given = end.operands[i];
    std::string value = result->type.is_scalar() ? emitter.name(given)
                                                 : emitter.in_layout(end, given, emitter.layout_of(result));
    bool overwritten = false;
    for (size_t k = 0; k < i; ++k) overwritten |= value == emitter.name(to[k]);
    if (overwritten) {
      const std::string kept = emitter.temporary();
      values.push_back(kept);
      emitter.line(end, str("const auto ", kept, " = ", value, ";"));
    } else {
      values.push_back(value);
    }
  }
  for (size_t i = 0; i < count; ++i)
    if (values[i] != emitter.name(to[i])) emitter.line(end, str(emitter.name(to[i]), " = ", values[i], ";"));
}

void emit_for(Emitter& emitter, const Op& op) {
  SpilledTiles spilled(emitter, op);
  declare(emitter, op, 3, &spilled);
  const Block& body = op.region();
  for (size_t i = 0; i < op.results.size(); ++i)
    emitter.define_alias(body.arguments[i + 1], emitter.name(op.results[i]));
  const std::string index = emitter.name(body.arguments[0]);
  emitter.wait_for_readers(op);
  int64_t mark = emitter.staged_mark();
  StagedLoop staged(emitter, op);
  std::optional<Prefetches> loads;
  if (!staged.waits()) {
    emitter.await_copies(op);
    loads.emplace(emitter, op);
    mark = emitter.staged_mark();  // prefetched tiles stay allocated: no barrier follows their last readers
  }
  const std::optional<Constant> step = constant_of(op.operands[2]);
  emitter.line(op, str("TILE_LOOP for (", op.type(0).dtype, " ", index, " = ", emitter.name(op.operands[0]),
                       "; ", index, " < ", emitter.name(op.operands[1]), "; ",
                       step && step->integer == 1 ? "++" + index
                                                  : index + " = " + index_after_text(emitter, op, index, 1),
                       ") {"));
  emitter.indent(1);
  staged.begin_iteration();
  if (loads) loads->begin_iteration();
  emitter.block(body);
  staged.end_iteration();
  // Readers of this iteration are separated from the next by its barrier, or by one here.
  if (staged.waits()) emitter.was_synchronized();
  emitter.wait_for_readers(op);
  emitter.indent(-1);
  emitter.close();
  staged.end();
  emitter.release_staged(mark);
  spilled.end();
}

void emit_loop(Emitter& emitter, const Op& op) {
  declare(emitter, op, 0);
  for (size_t i = 0; i < op.results.size(); ++i)
    emitter.define_alias(op.region().arguments[i], emitter.name(op.results[i]));
  emitter.wait_for_readers(op);
  emitter.line(op, "for (;;) {");
  emitter.indent(1);
  emitter.block(op.region());
  emitter.wait_for_readers(op);
  emitter.indent(-1);
  emitter.close();
}

void emit_if(Emitter& emitter, const Op& op) {
  emitter.wait_for_readers(op);
  for (const Value* result : op.results)
    emitter.line(op,
                 str(emitter.type(result->type, emitter.layout_of(result)), " ", emitter.name(result), ";"));
  for (size_t i = 0; i < 2; ++i) {
    if (i && op.region(i).ops.size() == 1 && op.region(i).terminator() && op.results.empty() &&
        op.region(i).terminator()->is("yield"))
      break;
    emitter.line(op, i ? "} else {" : str("if (", emitter.name(op.operands[0]), ") {"));
    emitter.indent(1);
    emitter.block(op.region(i));
    emitter.wait_for_readers(op);
    emitter.indent(-1);
  }
  emitter.close();
}

// The accumulated arguments of a combine region are its results.
void emit_yield(Emitter& emitter, const Op& op) {
  const Op& owner = *op.parent->parent;
  const bool combines = !owner.is("for") && !owner.is("if");
  assign(emitter, op, combines ? op.parent->arguments : owner.results, op.operands.size());
}

// Returns the innermost loop that contains the op, which break and continue refer to, also inside `if`.
const Op& loop_around(const Op& op) {
  const Op* owner = op.parent->parent;
  while (!owner->is("loop")) owner = owner->parent->parent;
  return *owner;
}
void emit_jump(Emitter& emitter, const Op& op) {
  const Op& loop = loop_around(op);
  assign(emitter, op, loop.results, loop.results.size());
  emitter.wait_for_readers(op);
  emitter.line(op, str(op.name(), ";"));
}

const AddLoweringRule for_{{.name = "for", .emit = emit_for, .across = true, .grouped = true}};
const AddLoweringRule loop_{{"loop", emit_loop}};
const AddLoweringRule if_{{.name = "if", .emit = emit_if, .across = true}};
const AddLoweringRule yield_{{.name = "yield", .emit = emit_yield, .across = true, .grouped = true}};
const AddLoweringRule break_{{"break", emit_jump}};
const AddLoweringRule continue_{{"continue", emit_jump}};

}  // namespace
}  // namespace tile::cuda
