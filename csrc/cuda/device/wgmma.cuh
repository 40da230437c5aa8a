// Products of warpgroups (wgmma): asynchronous, with operands in shared memory; sm_90 only. The emulator
// replaces this file.
//
// A product's struct P of the generated source has these members:
//   columns, rows, steps          N; blocks of 64 rows that a group multiplies; steps of 32 bytes along k
//   Left, Right                   the operands' types
//   left_k_major, left_leading, left_stride, left_mode    how the left operand lies in memory; right_...
//   left_step(k), right_step(k)   where step k begins, in bytes; left_block(i): where block i begins
// A thread has these sums, for i < rows, j < N / 8 and h, c < 2:
//   x[(i * N / 8 + j) * 4 + h * 2 + c]: row 64 * i + 16 * warp() + lane() / 4 + 8 * h,
//                                       column 8 * j + lane() % 4 * 2 + c
#pragma once
#include "cuda/device/matrix_descriptor.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// The instructions for N columns: multiply() starts the product of 64 rows by 32 bytes of k, and
// multiply_four() those of four steps along k. Its last arguments say how far behind the first step the
// others begin, in units of 16 bytes.
template <int columns, class Left, class Right>
struct Wgmma;

// The numbers of an instruction's operands. The sums come first; TILE_AFTER_N has the numbers behind them.
#define TILE_SUMS_8(FIRST, NEXT) FIRST(0, 1, 2, 3)
#define TILE_SUMS_16(FIRST, NEXT) TILE_SUMS_8(FIRST, NEXT) NEXT(4, 5, 6, 7)
#define TILE_SUMS_24(FIRST, NEXT) TILE_SUMS_16(FIRST, NEXT) NEXT(8, 9, 10, 11)
#define TILE_SUMS_32(FIRST, NEXT) TILE_SUMS_24(FIRST, NEXT) NEXT(12, 13, 14, 15)
#define TILE_SUMS_40(FIRST, NEXT) TILE_SUMS_32(FIRST, NEXT) NEXT(16, 17, 18, 19)
#define TILE_SUMS_48(FIRST, NEXT) TILE_SUMS_40(FIRST, NEXT) NEXT(20, 21, 22, 23)
#define TILE_SUMS_56(FIRST, NEXT) TILE_SUMS_48(FIRST, NEXT) NEXT(24, 25, 26, 27)
#define TILE_SUMS_64(FIRST, NEXT) TILE_SUMS_56(FIRST, NEXT) NEXT(28, 29, 30, 31)
#define TILE_SUMS_72(FIRST, NEXT) TILE_SUMS_64(FIRST, NEXT) NEXT(32, 33, 34, 35)
#define TILE_SUMS_80(FIRST, NEXT) TILE_SUMS_72(FIRST, NEXT) NEXT(36, 37, 38, 39)
#define TILE_SUMS_88(FIRST, NEXT) TILE_SUMS_80(FIRST, NEXT) NEXT(40, 41, 42, 43)
#define TILE_SUMS_96(FIRST, NEXT) TILE_SUMS_88(FIRST, NEXT) NEXT(44, 45, 46, 47)
#define TILE_SUMS_104(FIRST, NEXT) TILE_SUMS_96(FIRST, NEXT) NEXT(48, 49, 50, 51)
#define TILE_SUMS_112(FIRST, NEXT) TILE_SUMS_104(FIRST, NEXT) NEXT(52, 53, 54, 55)
#define TILE_SUMS_120(FIRST, NEXT) TILE_SUMS_112(FIRST, NEXT) NEXT(56, 57, 58, 59)
#define TILE_SUMS_128(FIRST, NEXT) TILE_SUMS_120(FIRST, NEXT) NEXT(60, 61, 62, 63)
#define TILE_SUMS_136(FIRST, NEXT) TILE_SUMS_128(FIRST, NEXT) NEXT(64, 65, 66, 67)
#define TILE_SUMS_144(FIRST, NEXT) TILE_SUMS_136(FIRST, NEXT) NEXT(68, 69, 70, 71)
#define TILE_SUMS_152(FIRST, NEXT) TILE_SUMS_144(FIRST, NEXT) NEXT(72, 73, 74, 75)
#define TILE_SUMS_160(FIRST, NEXT) TILE_SUMS_152(FIRST, NEXT) NEXT(76, 77, 78, 79)
#define TILE_SUMS_168(FIRST, NEXT) TILE_SUMS_160(FIRST, NEXT) NEXT(80, 81, 82, 83)
#define TILE_SUMS_176(FIRST, NEXT) TILE_SUMS_168(FIRST, NEXT) NEXT(84, 85, 86, 87)
#define TILE_SUMS_184(FIRST, NEXT) TILE_SUMS_176(FIRST, NEXT) NEXT(88, 89, 90, 91)
#define TILE_SUMS_192(FIRST, NEXT) TILE_SUMS_184(FIRST, NEXT) NEXT(92, 93, 94, 95)
#define TILE_SUMS_200(FIRST, NEXT) TILE_SUMS_192(FIRST, NEXT) NEXT(96, 97, 98, 99)
#define TILE_SUMS_208(FIRST, NEXT) TILE_SUMS_200(FIRST, NEXT) NEXT(100, 101, 102, 103)
#define TILE_SUMS_216(FIRST, NEXT) TILE_SUMS_208(FIRST, NEXT) NEXT(104, 105, 106, 107)
#define TILE_SUMS_224(FIRST, NEXT) TILE_SUMS_216(FIRST, NEXT) NEXT(108, 109, 110, 111)
#define TILE_SUMS_232(FIRST, NEXT) TILE_SUMS_224(FIRST, NEXT) NEXT(112, 113, 114, 115)
#define TILE_SUMS_240(FIRST, NEXT) TILE_SUMS_232(FIRST, NEXT) NEXT(116, 117, 118, 119)
#define TILE_SUMS_248(FIRST, NEXT) TILE_SUMS_240(FIRST, NEXT) NEXT(120, 121, 122, 123)
#define TILE_SUMS_256(FIRST, NEXT) TILE_SUMS_248(FIRST, NEXT) NEXT(124, 125, 126, 127)
#define TILE_AFTER_8(USE, ...)                                                                               \
  USE(__VA_ARGS__, 8, TILE_SUMS_8, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, \
      24, 25)
#define TILE_AFTER_16(USE, ...)                                                                            \
  USE(__VA_ARGS__, 16, TILE_SUMS_16, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, \
      26, 27, 28, 29)
#define TILE_AFTER_24(USE, ...)                                                                              \
  USE(__VA_ARGS__, 24, TILE_SUMS_24, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, \
      30, 31, 32, 33)
#define TILE_AFTER_32(USE, ...)                                                                              \
  USE(__VA_ARGS__, 32, TILE_SUMS_32, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, \
      34, 35, 36, 37)
#define TILE_AFTER_40(USE, ...)                                                                              \
  USE(__VA_ARGS__, 40, TILE_SUMS_40, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, \
      38, 39, 40, 41)
#define TILE_AFTER_48(USE, ...)                                                                              \
  USE(__VA_ARGS__, 48, TILE_SUMS_48, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, \
      42, 43, 44, 45)
#define TILE_AFTER_56(USE, ...)                                                                              \
  USE(__VA_ARGS__, 56, TILE_SUMS_56, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, \
      46, 47, 48, 49)
#define TILE_AFTER_64(USE, ...)                                                                              \
  USE(__VA_ARGS__, 64, TILE_SUMS_64, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, \
      50, 51, 52, 53)
#define TILE_AFTER_72(USE, ...)                                                                              \
  USE(__VA_ARGS__, 72, TILE_SUMS_72, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, \
      54, 55, 56, 57)
#define TILE_AFTER_80(USE, ...)                                                                              \
  USE(__VA_ARGS__, 80, TILE_SUMS_80, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, \
      58, 59, 60, 61)
#define TILE_AFTER_88(USE, ...)                                                                              \
  USE(__VA_ARGS__, 88, TILE_SUMS_88, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, \
      62, 63, 64, 65)
#define TILE_AFTER_96(USE, ...)                                                                              \
  USE(__VA_ARGS__, 96, TILE_SUMS_96, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, \
      66, 67, 68, 69)
#define TILE_AFTER_104(USE, ...)                                                                           \
  USE(__VA_ARGS__, 104, TILE_SUMS_104, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, \
      69, 70, 71, 72, 73)
#define TILE_AFTER_112(USE, ...)                                                                           \
  USE(__VA_ARGS__, 112, TILE_SUMS_112, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, \
      73, 74, 75, 76, 77)
#define TILE_AFTER_120(USE, ...)                                                                           \
  USE(__VA_ARGS__, 120, TILE_SUMS_120, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, \
      77, 78, 79, 80, 81)
#define TILE_AFTER_128(USE, ...)                                                                           \
  USE(__VA_ARGS__, 128, TILE_SUMS_128, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, \
      81, 82, 83, 84, 85)
#define TILE_AFTER_136(USE, ...)                                                                           \
  USE(__VA_ARGS__, 136, TILE_SUMS_136, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, \
      85, 86, 87, 88, 89)
#define TILE_AFTER_144(USE, ...)                                                                           \
  USE(__VA_ARGS__, 144, TILE_SUMS_144, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, \
      89, 90, 91, 92, 93)
#define TILE_AFTER_152(USE, ...)                                                                           \
  USE(__VA_ARGS__, 152, TILE_SUMS_152, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, \
      93, 94, 95, 96, 97)
#define TILE_AFTER_160(USE, ...)                                                                           \
  USE(__VA_ARGS__, 160, TILE_SUMS_160, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, \
      97, 98, 99, 100, 101)
#define TILE_AFTER_168(USE, ...)                                                                            \
  USE(__VA_ARGS__, 168, TILE_SUMS_168, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, \
      101, 102, 103, 104, 105)
#define TILE_AFTER_176(USE, ...)                                                                           \
  USE(__VA_ARGS__, 176, TILE_SUMS_176, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, \
      104, 105, 106, 107, 108, 109)
#define TILE_AFTER_184(USE, ...)                                                                          \
  USE(__VA_ARGS__, 184, TILE_SUMS_184, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, \
      107, 108, 109, 110, 111, 112, 113)
#define TILE_AFTER_192(USE, ...)                                                                         \
  USE(__VA_ARGS__, 192, TILE_SUMS_192, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, \
      110, 111, 112, 113, 114, 115, 116, 117)
#define TILE_AFTER_200(USE, ...)                                                                             \
  USE(__VA_ARGS__, 200, TILE_SUMS_200, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, \
      114, 115, 116, 117, 118, 119, 120, 121)
#define TILE_AFTER_208(USE, ...)                                                                             \
  USE(__VA_ARGS__, 208, TILE_SUMS_208, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, \
      118, 119, 120, 121, 122, 123, 124, 125)
#define TILE_AFTER_216(USE, ...)                                                                             \
  USE(__VA_ARGS__, 216, TILE_SUMS_216, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, \
      122, 123, 124, 125, 126, 127, 128, 129)
#define TILE_AFTER_224(USE, ...)                                                                             \
  USE(__VA_ARGS__, 224, TILE_SUMS_224, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, \
      126, 127, 128, 129, 130, 131, 132, 133)
#define TILE_AFTER_232(USE, ...)                                                                             \
  USE(__VA_ARGS__, 232, TILE_SUMS_232, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, \
      130, 131, 132, 133, 134, 135, 136, 137)
#define TILE_AFTER_240(USE, ...)                                                                             \
  USE(__VA_ARGS__, 240, TILE_SUMS_240, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, \
      134, 135, 136, 137, 138, 139, 140, 141)
#define TILE_AFTER_248(USE, ...)                                                                             \
  USE(__VA_ARGS__, 248, TILE_SUMS_248, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, \
      138, 139, 140, 141, 142, 143, 144, 145)
#define TILE_AFTER_256(USE, ...)                                                                             \
  USE(__VA_ARGS__, 256, TILE_SUMS_256, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, \
      142, 143, 144, 145, 146, 147, 148, 149)

#define TILE_NAMES(A, B, C, D) "%" #A ", %" #B ", %" #C ", %" #D
#define TILE_MORE_NAMES(A, B, C, D) ", %" #A ", %" #B ", %" #C ", %" #D
#define TILE_FLOATS(A, B, C, D) "+f"(sums[A]), "+f"(sums[B]), "+f"(sums[C]), "+f"(sums[D])
#define TILE_MORE_FLOATS(A, B, C, D) , TILE_FLOATS(A, B, C, D)
#define TILE_INTEGERS(A, B, C, D) "+r"(sums[A]), "+r"(sums[B]), "+r"(sums[C]), "+r"(sums[D])
#define TILE_MORE_INTEGERS(A, B, C, D) , TILE_INTEGERS(A, B, C, D)

// One instruction of a statement. ENDING is what follows the predicate.
#define TILE_STEP(N, NUMBERS, NAME, LEFT, RIGHT, ADD, ENDING) \
  "wgmma.mma_async.sync.aligned.m64n" #N NAME                 \
  " {" NUMBERS(TILE_NAMES, TILE_MORE_NAMES) "}, " LEFT ", " RIGHT ", " ADD ENDING "; "
#define TILE_WORDS(A, B, C, D) "{%" #A ", %" #B ", %" #C ", %" #D "}"
#define TILE_OF_WORDS(I) "r"(left[I]), "r"(left[I + 1]), "r"(left[I + 2]), "r"(left[I + 3])

// Both forms of an instruction: the left operand is in shared memory, or in registers. Only operands of 16
// bits may be read along the other axis than k. NVRTC spends its time on the operands of a statement, not on
// its text: four steps in a statement compile in a third of the time of four statements. The descriptors of
// the other three are computed inside: ahead of the statement they would take registers.
#define TILE_ADDED(TO, FROM, BY) "add.s64 " TO ", %" #FROM ", %" #BY "; "
// clang-format off
#define TILE_WGMMA_OF(LEFT, RIGHT, NAME, SUM, SUMS, ENDING, REGISTER_ENDING, N, NUMBERS, P0, P1, P2, P3, P4,  \
                      P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17, P18, P19, P20, P21)         \
  template <>                                                                                                 \
  struct Wgmma<N, LEFT, RIGHT> {                                                                              \
    template <int transposed_left, int transposed_right>                                                      \
    TILE static void multiply(SUM* sums, u64 left, u64 right, u32 add) {                                      \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P2 ", 0; "                                             \
                   TILE_STEP(N, NUMBERS, NAME, "%" #P0, "%" #P1, "p", ENDING(P3, P4)) "}"                     \
                   : NUMBERS(TILE_##SUMS, TILE_MORE_##SUMS)                                                   \
                   : "l"(left), "l"(right), "r"(add), "n"(transposed_left), "n"(transposed_right));           \
    }                                                                                                         \
    template <int transposed_left, int transposed_right, int left1, int left2, int left3, int right1,         \
              int right2, int right3>                                                                         \
    TILE static void multiply_four(SUM* sums, u64 left, u64 right, u32 add) {                                 \
      asm volatile("{ .reg .pred p, q; .reg .b64 a, b; setp.ne.b32 p, %" #P2 ", 0; setp.eq.b32 q, 0, 0; "     \
                   TILE_STEP(N, NUMBERS, NAME, "%" #P0, "%" #P1, "p", ENDING(P3, P4))                         \
                   TILE_ADDED("a", P0, P5) TILE_ADDED("b", P1, P8)                                            \
                   TILE_STEP(N, NUMBERS, NAME, "a", "b", "q", ENDING(P3, P4))                                 \
                   TILE_ADDED("a", P0, P6) TILE_ADDED("b", P1, P9)                                            \
                   TILE_STEP(N, NUMBERS, NAME, "a", "b", "q", ENDING(P3, P4))                                 \
                   TILE_ADDED("a", P0, P7) TILE_ADDED("b", P1, P10)                                           \
                   TILE_STEP(N, NUMBERS, NAME, "a", "b", "q", ENDING(P3, P4)) "}"                             \
                   : NUMBERS(TILE_##SUMS, TILE_MORE_##SUMS)                                                   \
                   : "l"(left), "l"(right), "r"(add), "n"(transposed_left), "n"(transposed_right),            \
                     "n"(left1), "n"(left2), "n"(left3), "n"(right1), "n"(right2), "n"(right3));              \
    }                                                                                                         \
    template <int transposed_right>                                                                           \
    TILE static void multiply(SUM* sums, const u32* left, u64 right, u32 add) {                               \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P5 ", 0; "                                             \
                   TILE_STEP(N, NUMBERS, NAME, TILE_WORDS(P0, P1, P2, P3), "%" #P4, "p", REGISTER_ENDING(P6)) \
                   "}"                                                                                        \
                   : NUMBERS(TILE_##SUMS, TILE_MORE_##SUMS)                                                   \
                   : TILE_OF_WORDS(0), "l"(right), "r"(add), "n"(transposed_right));                          \
    }                                                                                                         \
    template <int transposed_right, int right1, int right2, int right3>                                       \
    TILE static void multiply_four(SUM* sums, const u32* left, u64 right, u32 add) {                          \
      asm volatile("{ .reg .pred p, q; .reg .b64 b; setp.ne.b32 p, %" #P17 ", 0; setp.eq.b32 q, 0, 0; "       \
                   TILE_STEP(N, NUMBERS, NAME, TILE_WORDS(P0, P1, P2, P3), "%" #P16, "p", REGISTER_ENDING(P18))\
                   TILE_ADDED("b", P16, P19)                                                                  \
                   TILE_STEP(N, NUMBERS, NAME, TILE_WORDS(P4, P5, P6, P7), "b", "q", REGISTER_ENDING(P18))    \
                   TILE_ADDED("b", P16, P20)                                                                  \
                   TILE_STEP(N, NUMBERS, NAME, TILE_WORDS(P8, P9, P10, P11), "b", "q", REGISTER_ENDING(P18))  \
                   TILE_ADDED("b", P16, P21)                                                                  \
                   TILE_STEP(N, NUMBERS, NAME, TILE_WORDS(P12, P13, P14, P15), "b", "q", REGISTER_ENDING(P18))\
                   "}"                                                                                        \
                   : NUMBERS(TILE_##SUMS, TILE_MORE_##SUMS)                                                   \
                   : TILE_OF_WORDS(0), TILE_OF_WORDS(4), TILE_OF_WORDS(8), TILE_OF_WORDS(12), "l"(right),     \
                     "r"(add), "n"(transposed_right), "n"(right1), "n"(right2), "n"(right3));                 \
    }                                                                                                         \
  };
// clang-format on
#define TILE_SIGNS_MAJORS(A, B) ", 1, 1, %" #A ", %" #B
#define TILE_SIGNS_MAJOR(A) ", 1, 1, %" #A
#define TILE_SIGNS(...) ", 1, 1"
#define TILE_NO_ENDING(...) ""
#define TILE_16_BITS(TYPE, NAME) TYPE, TYPE, NAME, f32, FLOATS, TILE_SIGNS_MAJORS, TILE_SIGNS_MAJOR
#define TILE_OTHER_FLOATS(LEFT, RIGHT, NAME) LEFT, RIGHT, NAME, f32, FLOATS, TILE_SIGNS, TILE_SIGNS
#define TILE_BYTES(LEFT, RIGHT, NAME) LEFT, RIGHT, NAME, i32, INTEGERS, TILE_NO_ENDING, TILE_NO_ENDING
#define TILE_OF_bf16_bf16 TILE_16_BITS(bf16, "k16.f32.bf16.bf16")
#define TILE_OF_f16_f16 TILE_16_BITS(f16, "k16.f32.f16.f16")
#define TILE_OF_tf32_tf32 TILE_OTHER_FLOATS(tf32, tf32, "k8.f32.tf32.tf32")
#define TILE_OF_f8e4m3_f8e4m3 TILE_OTHER_FLOATS(f8e4m3, f8e4m3, "k32.f32.e4m3.e4m3")
#define TILE_OF_f8e4m3_f8e5m2 TILE_OTHER_FLOATS(f8e4m3, f8e5m2, "k32.f32.e4m3.e5m2")
#define TILE_OF_f8e5m2_f8e4m3 TILE_OTHER_FLOATS(f8e5m2, f8e4m3, "k32.f32.e5m2.e4m3")
#define TILE_OF_f8e5m2_f8e5m2 TILE_OTHER_FLOATS(f8e5m2, f8e5m2, "k32.f32.e5m2.e5m2")
#define TILE_OF_i8_i8 TILE_BYTES(i8, i8, "k32.s32.s8.s8")
#define TILE_OF_i8_u8 TILE_BYTES(i8, u8, "k32.s32.s8.u8")
#define TILE_OF_u8_i8 TILE_BYTES(u8, i8, "k32.s32.u8.s8")
#define TILE_OF_u8_u8 TILE_BYTES(u8, u8, "k32.s32.u8.u8")
// Defines the instructions for N columns and these operands: a text asks once for each of them that it uses.
#define TILE_WGMMA(N, LEFT, RIGHT) TILE_AFTER_##N(TILE_WGMMA_OF, TILE_OF_##LEFT##_##RIGHT)

// The compiler must not move accesses of these registers across.
template <class L>
TILE void pin(Tile<f32, L>& tile) {
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) asm volatile("" : "+f"(tile.x[r])::"memory");
}
template <class L>
TILE void pin(Tile<i32, L>& tile) {
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) asm volatile("" : "+r"(tile.x[r])::"memory");
}

// Steps along k that statements of four compute. Where a group has several blocks of rows, a step's products
// take turns, so that none waits for the sums of the one before. With the left operand in shared memory, four
// steps alone gain little, and small matmuls would take more registers.
template <class P, bool left_in_registers>
TILE constexpr int steps_together() {
  return P::rows == 1 && (left_in_registers || P::steps >= 8) ? P::steps / 4 * 4 : 0;
}

// Starts the products of step k and those behind it.
template <class P, int k, class Instruction, class Sum>
TILE void multiply_from(Sum* sums, u64 left, u64 right, u32 add) {
  if constexpr (k < steps_together<P, false>()) {
    constexpr int left0 = P::left_step(k) / 16, right0 = P::right_step(k) / 16;
    Instruction::template multiply_four<!P::left_k_major, !P::right_k_major, P::left_step(k + 1) / 16 - left0,
                                        P::left_step(k + 2) / 16 - left0, P::left_step(k + 3) / 16 - left0,
                                        P::right_step(k + 1) / 16 - right0,
                                        P::right_step(k + 2) / 16 - right0,
                                        P::right_step(k + 3) / 16 - right0>(
        sums, left + (u64)(P::left_block(0) / 16 + left0), right + (u64)right0, k ? 1u : add);
    multiply_from<P, k + 4, Instruction>(sums, left, right, add);
  } else if constexpr (k < P::steps) {
    TILE_UNROLL
    for (int i = 0; i < P::rows; ++i)
      Instruction::template multiply<!P::left_k_major, !P::right_k_major>(
          sums + i * (P::columns / 2), left + (u64)((P::left_block(i) + P::left_step(k)) / 16),
          right + (u64)(P::right_step(k) / 16), k ? 1u : add);
    multiply_from<P, k + 1, Instruction>(sums, left, right, add);
  }
}
template <class P, int k, class Instruction, class Sum>
TILE void multiply_from(Sum* sums, const u32* left, u64 right, u32 add) {
  if constexpr (k < steps_together<P, true>()) {
    constexpr int right0 = P::right_step(k) / 16;
    Instruction::template multiply_four<!P::right_k_major, P::right_step(k + 1) / 16 - right0,
                                        P::right_step(k + 2) / 16 - right0,
                                        P::right_step(k + 3) / 16 - right0>(
        sums, left + k * 4, right + (u64)right0, k ? 1u : add);
    multiply_from<P, k + 4, Instruction>(sums, left, right, add);
  } else if constexpr (k < P::steps) {
    TILE_UNROLL
    for (int i = 0; i < P::rows; ++i)
      Instruction::template multiply<!P::right_k_major>(sums + i * (P::columns / 2),
                                                        left + (i * P::steps + k) * 4,
                                                        right + (u64)(P::right_step(k) / 16), k ? 1u : add);
    multiply_from<P, k + 1, Instruction>(sums, left, right, add);
  }
}

// Starts a batch: sums + left * right, or left * right if not `add`. Until mma_awaited() the result may only
// be passed to the next product.
template <class P, class Sum, class L>
TILE Tile<Sum, L> mma_issued(Tile<Sum, L> sums, SharedAddress left, SharedAddress right, bool add, int) {
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  pin(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const u64 a = matrix_descriptor(left, P::left_leading, P::left_stride, P::left_mode),
            b = matrix_descriptor(right, P::right_leading, P::right_stride, P::right_mode);
  using Instruction = Wgmma<P::columns, typename P::Left, typename P::Right>;
  multiply_from<P, 0, Instruction>(sums.x, a, b, (u32)add);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  return sums;
}
// The same with the left operand in registers: 4 words for each block of rows and step of k. Two are those of
// rows r = lane() / 4 and r + 8 at byte lane() % 4 * 4, and two those of both rows 16 bytes further.
template <class P, class Sum, class L, class T, class LL>
TILE Tile<Sum, L> mma_issued_from_registers(Tile<Sum, L> sums, const Tile<T, LL>& left, SharedAddress right,
                                            bool add, int) {
  constexpr int words = P::rows * P::steps * 4;
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  static_assert(LL::registers * sizeof(T) == words * 4, "this is not the left operand of the product");
  u32 own[words];
  TILE_UNROLL
  for (int i = 0; i < words; ++i) {
    memcpy(&own[i], &left.x[i * (4 / (int)sizeof(T))], 4);
    asm volatile("" : "+r"(own[i])::"memory");
  }
  pin(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const u64 b = matrix_descriptor(right, P::right_leading, P::right_stride, P::right_mode);
  using Instruction = Wgmma<P::columns, typename P::Left, typename P::Right>;
  multiply_from<P, 0, Instruction>(sums.x, own, b, (u32)add);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  return sums;
}

// Returns when at most `pending` batches are in flight: the operands of older ones have been read.
template <int pending>
TILE void mma_retire(int) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// The same; the result may be read.
template <int pending, class Sum, class L>
TILE Tile<Sum, L> mma_awaited(Tile<Sum, L> sums, int line) {
  mma_retire<pending>(line);
  pin(sums);
  return sums;
}

}  // namespace tile
