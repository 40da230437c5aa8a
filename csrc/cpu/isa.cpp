// Which instruction set runs: cpuid, TILE_ISA, ATEN_CPU_CAPABILITY.
#include "cpu/isa.h"

#include <cpuid.h>

#include "support/env.h"
#include "support/error.h"

namespace tile::cpu {

namespace {

// __builtin_cpu_supports knows no f16c before clang 16.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

}  // namespace

bool supported(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (isa) {
    case Isa::baseline:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
}

bool supports_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
}

bool prefers_bf16() {
  constexpr unsigned amx_bf16 = 1u << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & amx_bf16);
  return supports_bf16() && !amx;
}

namespace {

std::string supported_names() {
  std::string names;
  for (int i = 0; i < isa_count; ++i)
    if (supported(static_cast<Isa>(i))) names += str(names.empty() ? "" : ", ", isa_names[i]);
  return names;
}

Isa best_up_to(Isa limit) {
  int i = static_cast<int>(limit);
  while (!supported(static_cast<Isa>(i))) --i;
  return static_cast<Isa>(i);
}

}  // namespace

Isa choose_isa(std::string_view tile_isa, std::string_view aten_capability) {
  if (!tile_isa.empty()) {
    for (int i = 0; i < isa_count; ++i) {
      if (tile_isa != isa_names[i]) continue;
      if (supported(static_cast<Isa>(i))) return static_cast<Isa>(i);
      fail(ErrorKind::runtime, "TILE_ISA=", tile_isa,
           ": this machine's CPU does not have it; unset TILE_ISA or set it to one of ", supported_names());
    }
    fail(ErrorKind::value, "TILE_ISA=", tile_isa,
         ": there is no such instruction set; unset TILE_ISA or set it to one of ", supported_names());
  }
  // torch ignores what it does not know here, and so do we.
  if (aten_capability == "default") return Isa::baseline;
  if (aten_capability == "avx2") return best_up_to(Isa::avx2);
  return best_up_to(Isa::avx512);
}

Isa active_isa() {
  static const Isa isa = choose_isa(environment("TILE_ISA"), environment("ATEN_CPU_CAPABILITY"));
  return isa;
}

}  // namespace tile::cpu
