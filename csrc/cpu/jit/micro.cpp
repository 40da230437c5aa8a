// The table of micro-operations and their instructions.
#include "cpu/jit/micro.h"

#include "support/error.h"

namespace tile::cpu::jit {
namespace {

constexpr MicroRow rows[] = {
    {Micro::constant, Form::source, {}},
    {Micro::table, Form::source, {}, false, false, NanOf::never},
    {Micro::column, Form::source, {}},
    {Micro::words, Form::source, {}},
    {Micro::scalar, Form::source, {}},
    {Micro::add, Form::binary, {0x58, 1, 0}, true, false, NanOf::arithmetic},
    {Micro::sub, Form::binary, {0x5c, 1, 0}, false, false, NanOf::arithmetic},
    {Micro::mul, Form::binary, {0x59, 1, 0}, true, false, NanOf::arithmetic},
    {Micro::div, Form::binary, {0x5e, 1, 0}, false, false, NanOf::arithmetic},
    {Micro::min, Form::binary, {0x5d, 1, 0}, false, false, NanOf::picks},
    {Micro::max, Form::binary, {0x5f, 1, 0}, false, false, NanOf::picks},
    {Micro::bit_and, Form::binary, {0x54, 1, 0}, true, false, NanOf::signs},
    {Micro::bit_or, Form::binary, {0x56, 1, 0}, true},
    {Micro::bit_xor, Form::binary, {0x57, 1, 0}, true, false, NanOf::signs},
    {Micro::compare, Form::predicate, {0xc2, 1, 0}, false, true},
    {Micro::add_integer, Form::binary, {0xfe, 1, 1}, true},
    {Micro::sub_integer, Form::binary, {0xfa, 1, 1}},
    {Micro::mul_integer, Form::binary, {0x40, 2, 1}, true},
    {Micro::min_integer, Form::binary, {0x39, 2, 1}, true},
    {Micro::max_integer, Form::binary, {0x3d, 2, 1}, true},
    {Micro::greater_integer, Form::predicate, {0x66, 1, 1}},
    {Micro::equal_integer, Form::predicate, {0x76, 1, 1}, true},
    {Micro::shift_left, Form::shift, {0x72, 1, 1, 6}, false, true},
    {Micro::shift_right, Form::shift, {0x72, 1, 1, 4}, false, true},
    {Micro::shift_right_zeros, Form::shift, {0x72, 1, 1, 2}, false, true},
    {Micro::scale, Form::binary, {0x2c, 2, 1}, false, false, NanOf::arithmetic},
    {Micro::lookup, Form::binary, {0x16, 2, 1}, false, false, NanOf::never},
    {Micro::range, Form::binary, {0x50, 3, 1}, false, true, NanOf::arithmetic},
    {Micro::square_root, Form::unary, {0x51, 1, 0}, false, false, NanOf::arithmetic},
    {Micro::round, Form::unary, {0x08, 3, 1}, false, true, NanOf::arithmetic},
    {Micro::from_integer, Form::unary, {0x5b, 1, 0}, false, false, NanOf::never},
    {Micro::to_half, Form::narrowing, {0x1d, 3, 1, -1, 2}, false, true},
    {Micro::from_half, Form::unary, {0x13, 2, 1, -1, 2}},
    {Micro::extend, Form::unary, instructions::extend_words},
    {Micro::to_bf16, Form::unary, {0x72, 2, 2}},
    {Micro::fused, Form::fused, {0xb8, 2, 1}, false, false, NanOf::arithmetic},
    {Micro::fused_negative, Form::fused, {0xbc, 2, 1}, false, false, NanOf::arithmetic},
    {Micro::select, Form::select, {}, false, false, NanOf::picks},
};

}  // namespace

const MicroRow& row_of(Micro micro) {
  const MicroRow& row = rows[static_cast<int>(micro)];
  TILE_CHECK(row.micro == micro, "micro-operations are not in order");
  return row;
}

}  // namespace tile::cpu::jit
