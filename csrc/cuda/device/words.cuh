// Integer types by width, and words of 1 to 16 bytes; machine.cuh and the emulator's version share them.
#pragma once

namespace tile {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

// The type of a register that holds so many bytes.
template <int bytes>
struct Words;
template <>
struct Words<1> {
  u8 x[1];
};
template <>
struct Words<2> {
  u16 x[1];
};
template <>
struct Words<4> {
  u32 x[1];
};
template <>
struct Words<8> {
  u32 x[2];
};
template <>
struct Words<16> {
  u32 x[4];
};

}  // namespace tile
