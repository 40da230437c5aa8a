// What a vector of columns ends in: stores, and reductions in registers or in memory.
#include "cpu/assembler/sweep_loops.h"

namespace tile::cpu::assembler {

// Everything that a vector writes.
void SweepLoops::collect(const Ways& ways, std::vector<int>& roots) const {
  for (size_t k = 0; k < ways.outputs.size(); ++k)
    if (form_.outputs[k].columns) roots.push_back(ways.outputs[k]);
  roots.insert(roots.end(), ways.stores.begin(), ways.stores.end());
  for (const auto& [value, factor] : ways.reductions) {
    roots.push_back(value);
    if (factor >= 0) roots.push_back(factor);
  }
}

void SweepLoops::write_results(Encoder& code, Body& body, const Ways& ways, const Turn& turn) {
  for (size_t k = 0; k < ways.outputs.size(); ++k)
    if (form_.outputs[k].columns) store_vector(code, body, ways.outputs[k], output(k), turn.masked);
  for (size_t k = 0; k < ways.stores.size(); ++k)
    store_vector(code, body, ways.stores[k], store(k), turn.masked);
  for (size_t k = 0; k < ways.reductions.size(); ++k) accumulate(code, body, k, ways.reductions[k], turn);
}

namespace {

// A load or a store of whole lanes, of the columns that are there.
void move_lanes(Encoder& code, Body& body, int reg, const Place& place, bool masked, const Instruction& whole,
                const Instruction& part) {
  if (masked)
    code.vector(part, reg, body.mask(), place);
  else
    code.vector(whole, reg, 0, place);
}

}  // namespace

void SweepLoops::store_vector(Encoder& code, Body& body, int value, int participant, bool masked) {
  const auto& [dtype, columns, streams] = array(participant);
  const int reg = body.use(value);
  if (dtype == DType::boolean) {  // the lanes are masks
    const int bytes = body.temporary();
    code.vector(vex::upper_half, reg, 0, Place::reg(bytes), 256, 1);
    code.vector(vex::pack_signed_words, bytes, reg, Place::reg(bytes), 128);
    code.vector(vex::pack_signed_bytes, bytes, bytes, Place::reg(bytes), 128);
    code.vector(row_of(Micro::bit_and).instruction, bytes, bytes, constants_.place(0x01010101), 128);
    code.vector(vex::store_half, bytes, 0, address(participant), 128);
  } else if (dtype == DType::f16) {
    code.vector(row_of(Micro::to_half).instruction, reg, 0, address(participant), 256, 0);
  } else if (dtype == DType::bf16) {  // the patterns are the lower halves of the lanes
    const int upper = body.temporary();
    code.vector(vex::upper_half, reg, 0, Place::reg(upper), 256, 1);
    code.vector(vex::pack_words, upper, reg, Place::reg(upper), 128);
    code.vector(streams ? vex::stream : vex::store, upper, 0, address(participant), 128);
  } else {
    move_lanes(code, body, reg, address(participant), masked, streams ? vex::stream : vex::store,
               vex::masked_store);
  }
  body.release();
}

namespace {

// into = into (+) value, where NaN values of min and max are left out. Of two zeros `first` keeps into's
// sign, as the interpreter does while it goes along a row; else it is value's.
void combine(Encoder& code, const Combination& how, int into, int value, int scratch, int unordered, int bits,
             bool first) {
  const Instruction& instruction = row_of(how.micro).instruction;
  if (!how.ignores_nan) return code.vector(instruction, into, into, Place::reg(value), bits);
  constexpr int is_unordered = 3;
  const int kept = first ? into : value, other = first ? value : into;
  code.vector(instruction, scratch, other, Place::reg(kept), bits);  // kept, where either is NaN
  code.vector(row_of(Micro::compare).instruction, unordered, kept, Place::reg(kept), bits, is_unordered);
  code.vector(row_of(Micro::select).instruction, into, scratch, Place::reg(other), bits, unordered << 4);
}

}  // namespace

void SweepLoops::accumulate(Encoder& code, Body& body, size_t k, const std::pair<int, int>& values,
                            const Turn& turn) {
  const Combination& how = *trace_.combinations[k];
  const bool in_register = sums_columns(k);
  int value = body.use(values.first), factor = values.second < 0 ? -1 : body.use(values.second);
  if (turn.masked && in_register) {  // columns that are not there count for nothing
    const int mask = body.mask();
    const auto cut = [&](int reg) {
      const int part = body.temporary();
      if (how.ignores_nan) {
        const int identity = body.temporary();
        code.vector(vex::load, identity, 0, constants_.place(how.identity));
        code.vector(row_of(Micro::select).instruction, part, identity, Place::reg(reg), 256, mask << 4);
      } else {
        code.vector(row_of(Micro::bit_and).instruction, part, reg, Place::reg(mask));
      }
      return part;
    };
    value = cut(value);
    if (factor >= 0) factor = cut(factor);
  }
  const int into = in_register ? accumulator(k, turn.accumulator) : body.temporary();
  if (!in_register)
    move_lanes(code, body, into, address(reduction(k)), turn.masked, vex::load, vex::masked_load);
  if (factor >= 0) {
    code.vector(row_of(Micro::fused).instruction, into, value, Place::reg(factor));
  } else if (how.ignores_nan) {
    const int scratch = body.temporary();
    combine(code, how, into, value, scratch, body.temporary(), 256, in_register);
  } else {
    combine(code, how, into, value, 0, 0, 256, in_register);
  }
  if (!in_register)
    move_lanes(code, body, into, address(reduction(k)), turn.masked, vex::store, vex::masked_store);
  body.release();
}

// The accumulators of a row become one lane, in the interpreter's order: pairs of vectors, then halves.
void SweepLoops::finish_reductions() {
  const int scratch = 0, unordered = 1, other = 2;  // no body is at work; what is pinned is elsewhere
  for (size_t k = 0; k < form_.reductions.size(); ++k) {
    if (!sums_columns(k)) continue;
    const Combination& how = *trace_.combinations[k];
    const auto with = [&](int into, int value, int bits) {
      combine(code_, how, into, value, scratch, unordered, bits, bits == 256);
    };
    for (int step = 1; step < unroll_; step *= 2)
      for (int v = 0; v + step < unroll_; v += 2 * step)
        with(accumulator(k, v), accumulator(k, v + step), 256);
    const int sum = accumulator(k, 0);
    code_.vector(vex::upper_half, sum, 0, Place::reg(other), 256, 1);
    with(sum, other, 128);
    for (int order : {0x4e, 0xb1}) {  // the halves, then the neighbours
      code_.vector(vex::permute, other, 0, Place::reg(sum), 128, order);
      with(sum, other, 128);
    }
    const Place to = lane_address(reduction(k));
    code_.vector(vex::load_lane, other, 0, to, 128);
    with(other, sum, 128);
    code_.vector(vex::store_lane, other, 0, to, 128);
  }
}

}  // namespace tile::cpu::assembler
