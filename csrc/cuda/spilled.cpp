// Selects the tiles to spill and emits their declarations.
#include "cuda/spilled.h"

#include <algorithm>

#include "cuda/cluster.h"
#include "cuda/emitter.h"

namespace tile::cuda {

SpilledTiles::SpilledTiles(Emitter& emitter, const Op& loop) : emitter_(emitter), loop_(loop) {
  const LayoutPlan& plan = emitter.plan();
  const Block& body = loop.region();
  if (plan.multiplies() || plan.cluster() > 1 || loop.parent->parent) return;
  const int64_t registers = std::min(255, 65536 / (plan.threads() * std::max(1, plan.blocks())));
  int64_t words = live_tiles(emitter.function()).bytes / 4 / plan.threads();
  for (size_t i = loop.results.size(); i-- > 0 && words >= registers * 3 / 4;) {
    const Type& type = loop.results[i]->type;
    const int64_t bytes = emitter.layout_of(loop.results[i]).registers() * info(type.dtype).bytes;
    if (type.is_scalar() || info(type.dtype).bytes < 4 || bytes % 16 != 0 ||
        !emitter.rematerialize().reads_once(body, body.arguments[i + 1]) ||
        bytes * plan.threads() > emitter.staged_left())
      continue;
    memory_.resize(loop.results.size());
    memory_[i] = str("staged_memory() + ", emitter.take_staged(loop, bytes * plan.threads()));
    words -= bytes / 4;
  }
}

void SpilledTiles::declare(size_t i) {
  const Value* result = loop_.results[i];
  const std::string name = emitter_.temporary();
  emitter_.need("spilled.cuh");
  emitter_.line(loop_, str("Spilled<", result->type.dtype, ", ", emitter_.layout(emitter_.layout_of(result)),
                           ", ", emitter_.plan().threads(), "> ", name, " = {{", memory_[i], ", ",
                           line_number(loop_), "}};"));
  emitter_.define_alias(result, name);
}

void SpilledTiles::end() {
  for (size_t i = 0; i < memory_.size(); ++i)
    if (has(i)) {
      const std::string name = emitter_.name(loop_.results[i]);
      emitter_.forget(loop_.results[i]);
      emitter_.result(loop_, loop_.results[i], name + ".all()");
    }
}

}  // namespace tile::cuda
