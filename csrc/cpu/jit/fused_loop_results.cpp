// Emits the end of a vector of columns: stores, and reductions in registers or in memory.
#include "cpu/jit/fused_loop_nest.h"
#include "cpu/jit/masks.h"

namespace tile::cpu::jit {

// Collects everything that a vector writes.
void FusedLoopNest::collect(const Ways& ways, std::vector<int>& roots) const {
  for (size_t k = 0; k < ways.outputs.size(); ++k)
    if (form_.outputs[k].columns) roots.push_back(ways.outputs[k]);
  roots.insert(roots.end(), ways.stores.begin(), ways.stores.end());
  for (const auto& [value, factor] : ways.reductions) {
    roots.push_back(value);
    if (factor >= 0) roots.push_back(factor);
  }
}

void FusedLoopNest::write_results(Encoder& code, Body& body, const Ways& ways, const Iteration& iteration) {
  for (size_t k = 0; k < ways.outputs.size(); ++k)
    if (form_.outputs[k].columns) store_vector(code, body, ways.outputs[k], output(k), iteration.columns);
  for (size_t k = 0; k < ways.stores.size(); ++k)
    if (paired(iteration.columns))
      store_pair(code, body, ways.stores[k], k, iteration.columns);
    else
      store_vector(code, body, ways.stores[k], store(k), iteration.columns);
  for (size_t k = 0; k < ways.reductions.size(); ++k)
    accumulate(code, body, k, ways.reductions[k], iteration);
}

namespace {

// Loads and stores of whole lanes, masked to existing columns if needed.
void load_lanes(Encoder& code, Body& body, int reg, const Operand& operand, bool masked) {
  if (!masked)
    code.vector(instructions::load, reg, 0, operand);
  else if (code.wide())
    code.vector(instructions::load, reg, 0, operand, full_vector, -1, {column_mask, true});
  else
    code.vector(avx2::masked_load, reg, body.mask(), operand);
}
void store_lanes(Encoder& code, Body& body, int reg, const Operand& operand, bool masked) {
  if (!masked)
    code.vector(instructions::store, reg, 0, operand);
  else if (code.wide())
    code.vector(instructions::store, reg, 0, operand, full_vector, -1, {column_mask, false});
  else
    code.vector(avx2::masked_store, reg, body.mask(), operand);
}
// Rows are only aligned to 32 bytes, so wider vectors are streamed in halves.
void stream_lanes(Encoder& code, Body& body, int reg, Operand operand) {
  code.vector(instructions::stream, reg, 0, operand, 256);
  if (!code.wide()) return;
  const int upper = body.temporary();
  code.vector(avx512::upper_256, reg, 0, Operand::reg(upper), full_vector, 1);
  operand.offset += 32;
  code.vector(instructions::stream, upper, 0, operand, 256);
}

// Stores the lanes of masks as bytes of 0 and 1.
void store_bytes(Encoder& code, Body& body, Constants& constants, int reg, const Operand& operand,
                 Masked there) {
  const int bytes = body.temporary();
  const Instruction& bit_and = row_of(Micro::bit_and).instruction;
  if (code.wide()) {
    code.vector(bit_and, bytes, reg, constants.operand(1));
    return code.vector(avx512::narrow_to_bytes, bytes, 0, operand, full_vector, -1, there);
  }
  code.vector(instructions::upper_half, reg, 0, Operand::reg(bytes), 256, 1);
  code.vector(avx2::pack_signed_words, bytes, reg, Operand::reg(bytes), 128);
  code.vector(avx2::pack_signed_bytes, bytes, bytes, Operand::reg(bytes), 128);
  code.vector(bit_and, bytes, bytes, constants.operand(0x01010101), 128);
  code.vector(avx2::store_half, bytes, 0, operand, 128);
}
// Stores adjacent words.
void store_narrow(Encoder& code, Body& body, int reg, const Operand& operand, Masked there) {
  if (there.number == 0) return code.vector(instructions::store, reg, 0, operand, 256);
  const int lanes = body.temporary();
  code.vector(instructions::extend_words, lanes, 0, Operand::reg(reg));
  code.vector(avx512::narrow_to_words, lanes, 0, operand, full_vector, -1, there);
}
void store_words(Encoder& code, Body& body, int reg, const Operand& operand, bool streams, Masked there) {
  if (code.wide() && !streams)
    return code.vector(avx512::narrow_to_words, reg, 0, operand, full_vector, -1, there);
  const int words = body.temporary(), half = code.wide() ? 256 : 128;
  if (code.wide()) {
    code.vector(avx512::narrow_to_words, reg, 0, Operand::reg(words));
  } else {
    code.vector(instructions::upper_half, reg, 0, Operand::reg(words), 256, 1);
    code.vector(avx2::pack_words, words, reg, Operand::reg(words), 128);
  }
  code.vector(streams ? instructions::stream : instructions::store, words, 0, operand, half);
}

}  // namespace

// The even columns are kept until the odd ones are computed.
void FusedLoopNest::store_pair(Encoder& code, Body& body, int value, size_t k, Columns columns) {
  const Operand evens = around_.slot(pair_slot_ + static_cast<int>(k));
  const int reg = body.use(value);
  if (columns == Columns::even) {
    code.vector(instructions::store, reg, 0, evens);
  } else {
    const int words = body.temporary();
    if (code.wide()) {
      constexpr int and_or = 0xea;  // words & reg | evens
      code.vector(instructions::load, words, 0, constants_.operand(0xffff0000));
      code.vector(avx512::ternary, words, reg, evens, full_vector, and_or);
    } else {
      constexpr int even_words = 0x55;
      code.vector(avx2::blend_words, words, reg, evens, full_vector, even_words);
    }
    if (form_.stores[k].streams)
      stream_lanes(code, body, words, address(store(k)));
    else
      code.vector(instructions::store, words, 0, address(store(k)));
  }
  body.release();
}

void FusedLoopNest::store_vector(Encoder& code, Body& body, int value, int participant, Columns which) {
  const bool masked = which == Columns::some;
  const auto& [dtype, columns, streams] = array(participant);
  const int reg = body.use(value);
  const Masked there{masked ? column_mask : 0, false};
  const Operand to = address(participant);
  if (dtype == DType::boolean)
    store_bytes(code, body, constants_, reg, to, there);
  else if (dtype == DType::f16 && !is_words(participant))
    code.vector(row_of(Micro::to_half).instruction, reg, 0, to, full_vector, 0, there);
  else if (trace_.trace.ops[static_cast<size_t>(value)].micro == Micro::to_bf16)
    store_narrow(code, body, reg, to, there);
  else if (dtype == DType::bf16 || dtype == DType::f16)
    store_words(code, body, reg, to, streams && !masked, there);
  else if (streams && !masked)
    stream_lanes(code, body, reg, to);
  else
    store_lanes(code, body, reg, to, masked);
  body.release();
}

namespace {

// Computes into = a (+) b with AVX-512's min and max, which ignore quiet NaN and order +0 above -0.
void pick(Encoder& code, const Combination& how, int into, int a, int b, int bits) {
  const RangeMode mode = how.micro == Micro::max ? range_greater : range_lesser;
  code.vector(row_of(Micro::range).instruction, into, a, Operand::reg(b), bits, mode);
}
// Computes into = into (+) value, where min and max ignore NaN. For two zeros, `first` keeps the sign of
// `into`, as the interpreter does along a row; otherwise the sign is that of `value`.
void combine(Encoder& code, const Combination& how, int into, int value, int scratch, int unordered, int bits,
             bool first) {
  const Instruction& instruction = row_of(how.micro).instruction;
  if (!how.ignores_nan) return code.vector(instruction, into, into, Operand::reg(value), bits);
  if (code.wide()) return pick(code, how, into, into, value, bits);
  constexpr int is_unordered = 3;
  const int kept = first ? into : value, other = first ? value : into;
  code.vector(instruction, scratch, other, Operand::reg(kept), bits);  // `kept` if either is NaN
  code.vector(row_of(Micro::compare).instruction, unordered, kept, Operand::reg(kept), bits, is_unordered);
  blend(code, into, scratch, Operand::reg(other), unordered, bits);
}

}  // namespace

void FusedLoopNest::accumulate(Encoder& code, Body& body, size_t k, const std::pair<int, int>& values,
                               const Iteration& iteration) {
  const bool masked = iteration.columns == Columns::some;
  const Combination& how = *trace_.combinations[k];
  const bool in_register = sums_columns(k);
  int value = body.use(values.first), factor = values.second < 0 ? -1 : body.use(values.second);
  if (masked && in_register) {  // lanes past the last column get the identity
    const int mask = code.wide() ? column_mask : body.mask();
    const auto with_identity = [&](int reg) {
      const int part = body.temporary();
      if (how.ignores_nan || code.wide()) {
        code.vector(instructions::load, part, 0, constants_.operand(how.identity));
        blend(code, part, part, Operand::reg(reg), mask);
      } else {
        code.vector(row_of(Micro::bit_and).instruction, part, reg, Operand::reg(mask));
      }
      return part;
    };
    value = with_identity(value);
    if (factor >= 0) factor = with_identity(factor);
  }
  const int into = in_register ? accumulator(k, iteration.accumulator) : body.temporary();
  if (!in_register) load_lanes(code, body, into, address(reduction(k)), masked);
  if (factor >= 0) {
    code.vector(row_of(Micro::fused).instruction, into, value, Operand::reg(factor));
  } else if (how.ignores_nan && code.wide()) {
    const bool is_quiet = trace_.trace.nans[static_cast<size_t>(values.first)].quiet;
    const int quiet = is_quiet ? value : body.temporary();
    if (!is_quiet) pick(code, how, quiet, value, value, full_vector);
    pick(code, how, into, into, quiet, full_vector);
  } else if (how.ignores_nan) {
    const int scratch = body.temporary(), unordered = body.temporary();
    combine(code, how, into, value, scratch, unordered, full_vector, in_register);
  } else {
    combine(code, how, into, value, 0, 0, full_vector, in_register);
  }
  if (!in_register) store_lanes(code, body, into, address(reduction(k)), masked);
  body.release();
}

// Extremes are exact for any number of terms, so they need no partial sums.
bool FusedLoopNest::sums_in_parts(size_t k) const {
  return form_.long_rows && sums_columns(k) && !trace_.combinations[k]->ignores_nan;
}
Operand FusedLoopNest::part(size_t k, int vector) const {
  return around_.slot(part_slot_ + unroll_ * static_cast<int>(k) + vector);
}
void FusedLoopNest::begin_parts() {
  for (size_t k = 0; k < form_.reductions.size(); ++k)
    for (int v = 0; v < unroll_ && sums_in_parts(k); ++v)
      code_.vector(instructions::store, accumulator(k, v), 0, part(k, v));
}
// Adds the accumulators to the partial sums and resets them, or at the end of a row adds the partial sums to
// the accumulators.
void FusedLoopNest::add_parts(bool ends) {
  for (size_t k = 0; k < form_.reductions.size(); ++k)
    for (int v = 0; v < unroll_ && sums_in_parts(k); ++v) {
      const Combination& how = *trace_.combinations[k];
      const int sum = accumulator(k, v);
      code_.vector(row_of(how.micro).instruction, sum, sum, part(k, v));
      if (ends) continue;
      code_.vector(instructions::store, sum, 0, part(k, v));
      code_.vector(instructions::load, sum, 0, constants_.operand(how.identity));
    }
}

// Combines a row's accumulators to one lane in the interpreter's order: pairs of vectors, then halves.
void FusedLoopNest::finish_reductions() {
  // No body is active, and pinned values are in other registers.
  const int scratch = 0, unordered = 1, other = 2;
  add_parts(true);
  for (size_t k = 0; k < form_.reductions.size(); ++k) {
    if (!sums_columns(k)) continue;
    const Combination& how = *trace_.combinations[k];
    const auto with = [&](int into, int value, int bits) {
      combine(code_, how, into, value, scratch, unordered, bits, bits == full_vector);
    };
    for (int step = 1; step < unroll_; step *= 2)
      for (int v = 0; v + step < unroll_; v += 2 * step)
        with(accumulator(k, v), accumulator(k, v + step), full_vector);
    const int sum = accumulator(k, 0);
    if (code_.wide()) {
      code_.vector(avx512::upper_256, sum, 0, Operand::reg(other), full_vector, 1);
      with(sum, other, 256);
    }
    code_.vector(instructions::upper_half, sum, 0, Operand::reg(other), 256, 1);
    with(sum, other, 128);
    for (int order : {0x4e, 0xb1}) {  // the halves, then adjacent lanes
      code_.vector(instructions::permute, other, 0, Operand::reg(sum), 128, order);
      with(sum, other, 128);
    }
    const Operand to = lane_address(reduction(k));
    code_.vector(instructions::load_lane, other, 0, to, 128);
    with(other, sum, 128);
    code_.vector(instructions::store_lane, other, 0, to, 128);
  }
}

}  // namespace tile::cpu::jit
