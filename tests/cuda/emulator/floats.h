// Conversions of 16-bit floats and of tf32, to nearest even; NaN becomes the GPU's NaN.
#pragma once
#include <math.h>
#include <string.h>

namespace tile::emulator {

template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the widths differ");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline unsigned short bits_of_bf16(float x) {
  const unsigned all = bits<unsigned>(x);
  if (x != x) return 0x7fff;
  return (unsigned short)((all + 0x7fff + (all >> 16 & 1)) >> 16);
}
inline unsigned bits_of_tf32(unsigned all) {
  if ((all & 0x7fffffff) > 0x7f800000) return 0x7fffffff;
  return (all + 0xfff + (all >> 13 & 1)) & 0xffffe000;
}
inline unsigned short bits_of_f16(float x) {
  const unsigned sign = bits<unsigned>(x) >> 31 << 15;
  const float size = fabsf(x);
  if (x != x) return 0x7fff;
  if (size >= 65520) return (unsigned short)(sign | 0x7c00);
  const int exponent = size < 0x1p-14f ? -14 : ilogbf(size);
  // In units of the last place. From 1024 units on the number is normal, and the carry increments the
  // exponent.
  const unsigned units = (unsigned)rintf(ldexpf(size, 10 - exponent));
  return (unsigned short)(sign | (((unsigned)(exponent + 14) << 10) + units));
}
inline float f16_from_bits(unsigned short all) {
  const int exponent = all >> 10 & 31, units = all & 1023;
  const float size = exponent == 31 ? (units ? NAN : INFINITY)
                     : exponent     ? ldexpf((float)(units + 1024), exponent - 25)
                                    : ldexpf((float)units, -24);
  return copysignf(size, all >> 15 ? -1.0f : 1.0f);
}

}  // namespace tile::emulator
