// Selects the instruction set that runs: cpuid, TILE_ISA, TILE_AMX, ATEN_CPU_CAPABILITY.
#include "cpu/vecmath/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/env.h"
#include "support/error.h"

namespace tile::cpu {

namespace {

// __builtin_cpu_supports does not support f16c before clang 16.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;  // edx of cpuid's leaf 7
bool arch_has(unsigned leaf_7_edx) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & leaf_7_edx) == leaf_7_edx;
}

// The system saves the tile registers, their shapes and their data on a context switch.
bool system_has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tiles = 3u << 17;
  return (low & tiles) == tiles;
}
// Linux lets a process use tile registers after a request. The request fails if a thread's signal stack would
// be too small.
bool system_allows_tiles() {
#if defined(SYS_arch_prctl)
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
  return false;
#endif
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

bool prefers_bf16() { return supports_bf16() && !arch_has(amx_bf16); }

bool supports_amx() {
  static const bool supports =
      supported(Isa::avx512) && arch_has(amx_tile | amx_bf16) && system_has_tiles() && system_allows_tiles();
  return supports;
}

bool choose_amx(Isa isa, std::string_view tile_amx) {
  if (!tile_amx.empty() && tile_amx != "off")
    fail(ErrorKind::value, "TILE_AMX=", tile_amx, ": unknown value; unset TILE_AMX or set it to off");
  return tile_amx.empty() && isa == Isa::avx512 && supports_amx();
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
  // torch ignores unknown values of this variable, and so does this.
  if (aten_capability == "default") return Isa::baseline;
  if (aten_capability == "avx2") return best_up_to(Isa::avx2);
  return best_up_to(Isa::avx512);
}

Isa active_isa() {
  static const Isa isa = choose_isa(environment("TILE_ISA"), environment("ATEN_CPU_CAPABILITY"));
  return isa;
}

}  // namespace tile::cpu
