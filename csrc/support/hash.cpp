// Two independent 64-bit FNV-1a streams with a final avalanche, for content addressing, not cryptography.
#include "support/hash.h"

namespace tile {
namespace {
uint64_t avalanche(uint64_t x) {  // the finaliser of splitmix64
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
}  // namespace

Hash128 hash128(std::string_view bytes) {
  uint64_t a = 0xcbf29ce484222325ull, b = 0x6c62272e07bb0142ull;
  for (unsigned char c : bytes) {
    a = (a ^ c) * 0x100000001b3ull;
    b = (b ^ (c + 0x9eull)) * 0x100000001b3ull + (b >> 47);
  }
  return {avalanche(a ^ bytes.size()), avalanche(b + bytes.size())};
}

std::string Hash128::hex() const {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (uint64_t word : {high, low})
    for (int shift = 60; shift >= 0; shift -= 4) text += digits[(word >> shift) & 15];
  return text;
}

}  // namespace tile
