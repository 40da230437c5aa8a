// Selects the fused loops that become machine code, and caches the code.
#include "cpu/jit/fused_loop_code.h"

#include <utility>

#include "cpu/jit/fused_loop_nest.h"
#include "support/env.h"
#include "support/error.h"

namespace tile::cpu::jit {
namespace {

std::atomic<bool>& switched_on() {
  static std::atomic<bool> on{true};
  return on;
}

}  // namespace

std::optional<Vectors> choose_vectors(Isa isa, std::string_view wanted) {
  if (!wanted.empty() && wanted != "off" && wanted != "avx2")
    fail(ErrorKind::value, "TILE_ASSEMBLER=", wanted,
         ": unknown value; unset TILE_ASSEMBLER or set it to off or avx2");
  if (wanted == "off" || isa == Isa::baseline) return std::nullopt;
  return isa == Isa::avx512 && wanted.empty() ? Vectors::avx512 : Vectors::avx2;
}

std::optional<Vectors> enabled() {
#if defined(__x86_64__)
  static const std::optional<Vectors> best = choose_vectors(active_isa(), environment("TILE_ASSEMBLER"));
  return switched_on() ? best : std::nullopt;
#else
  return std::nullopt;
#endif
}
void enable(bool on) { switched_on() = on; }

std::unique_ptr<CodeMemory> assemble(const FusedLoop& fused_loop, const FusedLoopForm& form,
                                     Vectors vectors) {
  FusedLoopTrace trace;
  if (!trace.record(fused_loop, form, vectors)) return nullptr;
  FusedLoopNest loops(form, trace, vectors);
  loops.write();
  return CodeMemory::make(loops.pool(), loops.code());
}

FusedLoopCodes::~FusedLoopCodes() {
  for (Entry* entry = first_; entry;) delete std::exchange(entry, entry->next);
}

FusedLoopFunction FusedLoopCodes::Entry::function() const {
  return code ? reinterpret_cast<FusedLoopFunction>(reinterpret_cast<uintptr_t>(code->code())) : nullptr;
}
const FusedLoopCodes::Entry* FusedLoopCodes::find(const Entry* first, const FusedLoopForm& form) {
  while (first && !(first->form == form)) first = first->next;
  return first;
}

FusedLoopFunction FusedLoopCodes::find(const FusedLoop& fused_loop, const FusedLoopForm& form,
                                       Vectors vectors) {
  if (const Entry* known = find(first_.load(std::memory_order_acquire), form)) return known->function();
  const std::lock_guard lock(mutex_);
  Entry* const first = first_.load(std::memory_order_relaxed);
  if (const Entry* known = find(first, form)) return known->function();
  auto* entry = new Entry{form, assemble(fused_loop, form, vectors), first};
  first_.store(entry, std::memory_order_release);
  return entry->function();
}

}  // namespace tile::cpu::jit
