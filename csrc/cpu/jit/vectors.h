// The vector instruction sets that fused loops can be assembled for.
#pragma once
#include <cstdint>

namespace tile::cpu::jit {

enum class Vectors : uint8_t { avx2, avx512 };
constexpr int bytes_of(Vectors vectors) { return vectors == Vectors::avx512 ? 64 : 32; }
constexpr int lanes_of(Vectors vectors) { return bytes_of(vectors) / 4; }  // 32-bit lanes
constexpr int registers_of(Vectors vectors) { return vectors == Vectors::avx512 ? 32 : 16; }

}  // namespace tile::cpu::jit
