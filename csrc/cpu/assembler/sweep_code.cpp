// Which sweeps become code, and where it is kept.
#include "cpu/assembler/sweep_code.h"

#include <atomic>

#include "cpu/assembler/sweep_loops.h"
#include "cpu/isa.h"
#include "support/env.h"

namespace tile::cpu::assembler {
namespace {

std::atomic<bool>& switched_on() {
  static std::atomic<bool> on{environment("TILE_ASSEMBLER") != "off"};
  return on;
}

}  // namespace

bool enabled() {
#if defined(__x86_64__)
  return active_isa() != Isa::baseline && switched_on();
#else
  return false;
#endif
}
void enable(bool on) { switched_on() = on; }

std::unique_ptr<CodeMemory> assemble(const Sweep& sweep, const SweepForm& form) {
  SweepTrace trace;
  if (!trace.record(sweep, form)) return nullptr;
  SweepLoops loops(form, trace);
  loops.write();
  return CodeMemory::make(loops.pool(), loops.code());
}

SweepFunction SweepCodes::find(const Sweep& sweep, const SweepForm& form) {
  const std::lock_guard lock(mutex_);
  Entry* entry = nullptr;
  for (Entry& known : entries_)
    if (known.form == form) entry = &known;
  if (!entry) {
    entries_.push_back({form, assemble(sweep, form)});
    entry = &entries_.back();
  }
  return entry->code ? reinterpret_cast<SweepFunction>(reinterpret_cast<uintptr_t>(entry->code->code()))
                     : nullptr;
}

}  // namespace tile::cpu::assembler
