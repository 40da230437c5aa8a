// Selects the loads to prefetch, allocates their buffers and emits them.
#include "cuda/prefetch.h"

#include <algorithm>

#include "cuda/access_text.h"
#include "cuda/pipeline.h"
#include "ir/walk.h"

namespace tile::cuda {

Prefetches::Prefetches(Emitter& emitter, const Op& loop) : emitter_(emitter), loop_(loop) {
  if (!emitter.configuration().prefetch || loop.results.empty()) return;
  std::vector<const Op*> address;
  for (const auto& op : loop.region().ops) {
    // Only arrays that the kernel does not write are prefetched.
    if (!op->is("load") || op->results[0]->type.is_scalar() || emitter.staging().of(*op)) continue;
    if (emitter.facts(op->operands[0]).constant && address_ops(*op, loop.region(), address))
      loads_.push_back({op.get()});
  }
  if (!find_room()) loads_.clear();
  if (loads_.empty()) return;
  std::string parameters;
  bool shared = false;
  for (Load& load : loads_) {
    const Op& op = *load.op;
    const Layout& layout = emitter.layout_of(op.results[0]);
    load.next = emitter.temporary();
    if (load.shared) {
      emitter.need("prefetch.cuh");
      const int64_t taken = emitter.take_staged(op, bytes(op) * emitter.plan().threads());
      emitter.line(op,
                   str("const PrefetchedTile<", op.results[0]->type.dtype, ", ", emitter.layout(layout), ", ",
                       emitter.plan().threads(), "> ", load.next, " = {staged_memory() + ", taken, "};"));
      shared = true;
    } else {
      const std::string type = emitter.type(op.results[0]->type, layout);
      emitter.line(op, str(type, " ", load.next, ";"));
      parameters += str(", ", type, "& ", load.next);
    }
  }
  load_ = declare_load(emitter, loop, parameters, address, [&] {
    for (const Load& load : loads_)
      emitter.line(*load.op,
                   load.shared
                       ? str(load.next, ".copy(", emitter.name(load.op->operands[0]), ", ",
                             start_text(emitter, *load.op, 1), ", ", line_number(*load.op), ");")
                       : str(load.next, " = ",
                             load_text(emitter, *load.op, emitter.layout_of(load.op->results[0])), ";"));
    if (shared) emitter.line(loop, "copy_async_commit();");
  });
  const std::string low = emitter.name(loop.operands[0]), high = emitter.name(loop.operands[1]);
  emitter.line(loop, str("if (", low, " < ", high, ") ", call_text(low)));
}

int64_t Prefetches::bytes(const Op& load) const {
  const Value* value = load.results[0];
  return int64_t{emitter_.layout_of(value).registers()} * info(value->type.dtype).bytes;
}

// Shared memory requires whole vectors of 16 bytes and zero padding.
bool Prefetches::fits_shared(const Op& load) const {
  const ArrayFacts facts = emitter_.facts(load.operands[0]);
  const Type& type = load.results[0]->type;
  const int vector = 16 / info(type.dtype).bytes;
  return load.number("pad") == 0 && facts.whole_vectors && facts.unit >= 0 &&
         vector_width(facts, type.dtype, type.shape, load.integers("steps")) % vector == 0 &&
         emitter_.layout_of(load.results[0]).vector_along(facts.unit) % vector == 0;
}

// Keeps the tiles in registers up to a limit of bytes per thread. The others wait in shared memory, the
// largest first, as long as the usual number of CTAs still fits. In loops that reduce and carry large sums,
// tiles of 16-bit and 8-bit elements are kept in shared memory, too. In registers, NVRTC would repack their
// elements right after the load, and so wait for memory before the computation. Other warps cannot hide that
// wait: all of them meet in each reduction, and the large sums leave room for few CTAs.
bool Prefetches::find_room() {
  constexpr int64_t most_bytes = 128;
  const int threads = emitter_.plan().threads();
  const bool reduces = loop_sums(emitter_.function()).reduces;
  const auto leaves_registers = [&](const Load& load) {
    return reduces && info(load.op->results[0]->type.dtype).bytes < 4;
  };
  std::vector<Load*> largest;
  int64_t in_registers = 0;
  for (Load& load : loads_) {
    in_registers += bytes(*load.op);
    largest.push_back(&load);
  }
  // A product's operands need shared memory themselves.
  bool multiplies = false;
  walk(loop_.region(), [&](const Op& op) { multiplies |= op.is("mma"); });
  if (multiplies) return in_registers <= most_bytes;
  std::stable_sort(largest.begin(), largest.end(),
                   [&](const Load* a, const Load* b) { return bytes(*a->op) > bytes(*b->op); });
  int64_t room = std::min(emitter_.staged_left(),
                          emitter_.target().shared_bytes / emitter_.plan().blocks() - emitter_.staged_mark());
  const bool all_fit = in_registers <= most_bytes;
  for (Load* load : largest) {
    const int64_t own = bytes(*load->op);
    if ((all_fit && !leaves_registers(*load)) || !fits_shared(*load->op) || own * threads > room) continue;
    load->shared = true;
    in_registers -= own;
    room -= own * threads;
  }
  return in_registers <= most_bytes;
}

std::string Prefetches::call_text(const std::string& index) const {
  std::string arguments = index;
  for (const Load& load : loads_)
    if (!load.shared) arguments += ", " + load.next;
  return str(load_, "(", arguments, ");");
}

void Prefetches::begin_iteration() {
  if (loads_.empty()) return;
  if (std::any_of(loads_.begin(), loads_.end(), [](const Load& load) { return load.shared; }))
    emitter_.line(loop_, "copy_async_wait<0>();");
  for (const Load& load : loads_) {
    const Op& op = *load.op;
    emitter_.result(op, load.shared ? str(load.next, ".all(", line_number(op), ")") : load.next);
    emitter_.set_emitted(&op);
  }
  const std::string next = declare_index(emitter_, loop_, 1);
  emitter_.line(loop_, str("if (", next, " < ", emitter_.name(loop_.operands[1]), ") ", call_text(next)));
}

}  // namespace tile::cuda
