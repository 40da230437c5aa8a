// Which sweeps become code, and where it is kept.
#include "cpu/assembler/sweep_code.h"

#include <algorithm>
#include <atomic>

#include "cpu/assembler/sweep_loops.h"
#include "cpu/isa.h"
#include "support/env.h"
#include "support/error.h"

namespace tile::cpu::assembler {
namespace {

std::atomic<bool>& switched_on() {
  static std::atomic<bool> on{true};
  return on;
}

std::optional<Vectors> choose(Isa isa, std::string_view wanted) {
  constexpr std::string_view known[] = {"", "off", "avx2", "avx512"};
  if (std::find(std::begin(known), std::end(known), wanted) == std::end(known))
    fail(ErrorKind::value, "TILE_ASSEMBLER=", wanted,
         ": there is no such assembler; unset TILE_ASSEMBLER or set it to one of off, avx2, avx512");
  if (wanted == "off" || isa == Isa::baseline) return std::nullopt;
  return isa == Isa::avx512 && wanted != "avx2" ? Vectors::avx512 : Vectors::avx2;
}

}  // namespace

std::optional<Vectors> enabled() {
#if defined(__x86_64__)
  static const std::optional<Vectors> best = choose(active_isa(), environment("TILE_ASSEMBLER"));
  return switched_on() ? best : std::nullopt;
#else
  return std::nullopt;
#endif
}
void enable(bool on) { switched_on() = on; }

std::unique_ptr<CodeMemory> assemble(const Sweep& sweep, const SweepForm& form, Vectors vectors) {
  SweepTrace trace;
  if (!trace.record(sweep, form)) return nullptr;
  SweepLoops loops(form, trace, vectors);
  loops.write();
  return CodeMemory::make(loops.pool(), loops.code());
}

SweepFunction SweepCodes::find(const Sweep& sweep, const SweepForm& form, Vectors vectors) {
  const std::lock_guard lock(mutex_);
  Entry* entry = nullptr;
  for (Entry& known : entries_)
    if (known.form == form) entry = &known;
  if (!entry) {
    entries_.push_back({form, assemble(sweep, form, vectors)});
    entry = &entries_.back();
  }
  return entry->code ? reinterpret_cast<SweepFunction>(reinterpret_cast<uintptr_t>(entry->code->code()))
                     : nullptr;
}

}  // namespace tile::cpu::assembler
