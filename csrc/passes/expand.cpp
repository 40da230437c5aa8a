// Expands derived primitives until only core primitives are left.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

bool expand(Function& function, bool for_derivatives) {
  bool changed = false;
  for (int round = 0;; ++round) {
    TILE_CHECK(round < 32, "a derived primitive expands into itself");
    Rewriter rewrite(function);
    rewrite.run(function.body(), [&](Op& op) {
      if (op.primitive->core() || (for_derivatives && op.traits().detaches)) return Keep::yes;
      std::vector<Value*> values = op.primitive->expand(rewrite.build, op);
      TILE_CHECK(values.size() == op.results.size(), op.name(), " expands to ", values.size(), " values");
      for (size_t i = 0; i < values.size(); ++i) {
        TILE_CHECK(values[i]->type == op.results[i]->type, op.name(), " expands to ", values[i]->type,
                   ", not ", op.results[i]->type);
        rewrite.replace(op.results[i], values[i]);
      }
      return Keep::no;
    });
    if (!rewrite.changed) return changed;
    changed = true;
  }
}

}  // namespace

bool expand(Function& function) { return expand(function, false); }
bool expand_for_derivatives(Function& function) { return expand(function, true); }

}  // namespace tile
