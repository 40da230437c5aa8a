// The instruction sets that the folders csrc/cpu/*/isa are compiled for, and the selection of one at startup.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace tile::cpu {

enum class Isa : uint8_t { baseline, avx2, avx512 };
inline constexpr int isa_count = 3;
inline constexpr std::array<std::string_view, isa_count> isa_names{"baseline", "avx2", "avx512"};
inline std::string_view name(Isa isa) { return isa_names[static_cast<int>(isa)]; }

// Returns true if this machine can run it.
bool supported(Isa isa);
// Returns true if the machine has products of bf16 in addition to avx512 (AVX512_BF16).
bool supports_bf16();
// Returns true if those products are faster than products of widened numbers. They are not on chips with AMX:
// a Xeon with 16 cores took 1.7 times as long.
bool prefers_bf16();

// Returns true if the machine has bf16 products on AMX's tile registers in addition to avx512, and the system
// grants them to this process.
bool supports_amx();
// Returns true if products of this instruction set use AMX, as TILE_AMX allows (off; any other value is an
// error).
bool choose_amx(Isa isa, std::string_view tile_amx);

// Returns the instruction set that the environment variables select: TILE_ISA (baseline, avx2, avx512; an
// unknown or unsupported one is an error), else at most ATEN_CPU_CAPABILITY (default, avx2, avx512), else the
// best supported one. An empty string means that a variable is not set.
Isa choose_isa(std::string_view tile_isa, std::string_view aten_capability);

// Returns this process's choice, made at the first call, which throws tile::Error if TILE_ISA is wrong.
Isa active_isa();

// Each file of csrc/cpu/*/isa is compiled once per instruction set, inside a namespace of that name, and
// exports one table of function pointers. TILE_DECLARE_ISA_TABLE(GemmTable, gemm_table) declares the three
// tables and the functions gemm_table(isa) and gemm_table(), which select one.
#define TILE_DECLARE_ISA_TABLE(Type, table)                                        \
  namespace baseline {                                                             \
  extern const Type table;                                                         \
  }                                                                                \
  namespace avx2 {                                                                 \
  extern const Type table;                                                         \
  }                                                                                \
  namespace avx512 {                                                               \
  extern const Type table;                                                         \
  }                                                                                \
  inline const Type& table(::tile::cpu::Isa isa) {                                 \
    const Type* const tables[] = {&baseline::table, &avx2::table, &avx512::table}; \
    return *tables[static_cast<int>(isa)];                                         \
  }                                                                                \
  inline const Type& table() { return table(::tile::cpu::active_isa()); }          \
  static_assert(true)

}  // namespace tile::cpu
