// Makes the rows of a table that has one for each dtype.
#pragma once
#include "cpu/interpreter/tables.h"
#include "cpu/vecmath/format.h"

namespace tile::cpu::TILE_ISA {

template <class Row>
struct DTypeRows {
  Row rows[dtype_count];
  constexpr Span<Row> all() const { return {rows, dtype_count}; }
};

// Returns make.operator()<M>(dtype) for each dtype, in the order of DType; M is the type of an element in
// memory.
template <class Row, class Make>
constexpr DTypeRows<Row> dtype_rows(const Make& make) {
  return {{make.template operator()<Bool>(DType::boolean), make.template operator()<int8_t>(DType::i8),
           make.template operator()<int16_t>(DType::i16), make.template operator()<int32_t>(DType::i32),
           make.template operator()<int64_t>(DType::i64), make.template operator()<uint8_t>(DType::u8),
           make.template operator()<uint16_t>(DType::u16), make.template operator()<uint32_t>(DType::u32),
           make.template operator()<uint64_t>(DType::u64), make.template operator()<f8e4m3>(DType::f8e4m3),
           make.template operator()<f8e5m2>(DType::f8e5m2), make.template operator()<f16>(DType::f16),
           make.template operator()<bf16>(DType::bf16), make.template operator()<tf32>(DType::tf32),
           make.template operator()<float>(DType::f32), make.template operator()<double>(DType::f64)}};
}

}  // namespace tile::cpu::TILE_ISA
