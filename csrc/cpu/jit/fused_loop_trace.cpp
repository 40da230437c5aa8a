// Records the steps of a fused loop twice: for ordinary lanes only, and for all lanes.
#include "cpu/jit/fused_loop_trace.h"

#include <algorithm>
#include <bit>

#include "cpu/jit/traced_rows.h"

namespace tile::cpu::jit {
namespace {

constexpr uint32_t nan_bits = 0x7fc00000;
constexpr int most_sums = 8;  // along the columns, each in a register
constexpr Combination combination_table[] = {{"reduce_sum", Micro::add, 0, false},
                                             {"reduce_max", Micro::max, nan_bits, true},
                                             {"reduce_min", Micro::min, nan_bits, true}};

const Combination* find_combination(const ReduceRow& row) {
  const auto* found = std::find_if(std::begin(combination_table), std::end(combination_table),
                                   [&](const Combination& c) { return c.name == row.name; });
  return row.lane == Lane::f32 && found != std::end(combination_table) ? found : nullptr;
}

bool whole_lane(DType dtype) { return dtype == DType::f32 || dtype == DType::i32; }
bool known(DType dtype) {
  return whole_lane(dtype) || dtype == DType::boolean || dtype == DType::bf16 || dtype == DType::f16;
}
// Returns true if the lane is stored in memory as this dtype.
bool goes_to(Lane lane, DType dtype) { return known(dtype) && lane_of(dtype) == lane; }

// Returns the value that a store writes: for bf16, its bits.
int stored(int lanes, DType dtype) {
  return dtype == DType::bf16 ? find_traced("bits.bf16", Lane::f32)->record(&lanes) : lanes;
}

bool supported(const FusedLoopForm& form) {
  const auto reads = [](const FusedLoopForm::Array& array) {
    return array.columns ? known(array.dtype) : whole_lane(array.dtype) || array.dtype == DType::boolean;
  };
  const auto sums = std::count_if(form.reductions.begin(), form.reductions.end(),
                                  [](const FusedLoopForm::Array& array) { return !array.columns; });
  return sums <= most_sums && std::all_of(form.inputs.begin(), form.inputs.end(), reads) &&
         form.inputs.size() + form.outputs.size() + form.stores.size() + form.reductions.size() +
                 form.prefetch.size() <=
             most_arrays;
}

}  // namespace

bool FusedLoopForm::any_columns(Vectors vectors) const {
  if (vectors == Vectors::avx512) return true;
  const auto maskable = [](const Array& array) { return !array.columns || whole_lane(array.dtype); };
  return std::all_of(inputs.begin(), inputs.end(), maskable) &&
         std::all_of(outputs.begin(), outputs.end(), maskable) &&
         std::all_of(stores.begin(), stores.end(), maskable);
}

bool FusedLoopTrace::record(const FusedLoop& fused_loop, const FusedLoopForm& form, Vectors vectors) {
  if (!supported(form)) return false;
  trace.wide = vectors == Vectors::avx512;
  rounds_to_bf16_ = vectors == Vectors::avx512 && supports_bf16();
  for (const FusedLoopReduction& reduction : fused_loop.reductions) {
    combinations.push_back(find_combination(*reduction.row));
    if (!combinations.back()) return false;
  }
  std::vector<bool> varies(fused_loop.lanes.size(), false);
  for (size_t v = 0; v < fused_loop.inputs.size(); ++v) varies[v] = form.inputs[v].columns;
  for (const FusedLoopStep& step : fused_loop.steps)
    for (int k = 0; k < step.arity; ++k)
      if (varies[static_cast<size_t>(step.in[k])]) varies[static_cast<size_t>(step.out)] = true;
  find_moves(fused_loop, form);
  Trace::current() = &trace;
  const bool recorded = record(fused_loop, form, varies, quick);
  const std::vector<int> guards = trace.guards;
  for (int mask : guards) guard = guard < 0 || guard == mask ? mask : trace.add(Micro::bit_and, guard, mask);
  trace.quick = false;
  slow = quick;
  const bool both = recorded && (guard < 0 || record(fused_loop, form, varies, slow));
  Trace::current() = nullptr;
  for (const MicroOp& op : trace.ops) {
    bool column = op.micro == Micro::column || op.micro == Micro::words;
    for (int k = 0; k < operand_count(op); ++k)
      column = column || columns[static_cast<size_t>(op.operands[k])];
    columns.push_back(column);
  }
  return both;
}

// Fills the tables of values that `where` selects and of values that come from f16 memory.
void FusedLoopTrace::find_moves(const FusedLoop& fused_loop, const FusedLoopForm& form) {
  picks_.assign(fused_loop.lanes.size(), nullptr);
  from_f16_.assign(fused_loop.lanes.size(), false);
  for (size_t v = 0; v < fused_loop.inputs.size(); ++v) from_f16_[v] = form.inputs[v].dtype == DType::f16;
  for (const FusedLoopStep& step : fused_loop.steps) {
    if (step.name != "where") continue;
    const auto out = static_cast<size_t>(step.out);
    picks_[out] = &step;
    from_f16_[out] = from_f16_[static_cast<size_t>(step.in[1])] || from_f16_[static_cast<size_t>(step.in[2])];
  }
}
// Returns true for an f16 value whose bits come unchanged from an input.
bool FusedLoopTrace::moved(const FusedLoop& fused_loop, int value) const {
  const auto v = static_cast<size_t>(value);
  return fused_loop.dtypes[v] == DType::f16 && (v < fused_loop.inputs.size() || picks_[v]);
}

// Records the 16 bits of each lane of an f16 value, once.
int FusedLoopTrace::bits_of_half(const FusedLoop& fused_loop, int value) {
  const auto v = static_cast<size_t>(value);
  if (bits_[v] < 0) bits_[v] = new_bits_of_half(fused_loop, value);
  return bits_[v];
}
int FusedLoopTrace::new_bits_of_half(const FusedLoop& fused_loop, int value) {
  const auto v = static_cast<size_t>(value);
  const int lanes = values_[v];
  if (v < fused_loop.inputs.size())
    return from_f16_[v] ? trace.add(Micro::words, -1, -1, -1, static_cast<uint32_t>(value))
                        : find_traced("bits.f16", Lane::f32)->record(&lanes);
  if (const FusedLoopStep* step = picks_[v]) {
    const int yes = bits_of_half(fused_loop, step->in[1]), no = bits_of_half(fused_loop, step->in[2]);
    return trace.add(Micro::select, values_[static_cast<size_t>(step->in[0])], yes, no);
  }
  const MicroOp& rounded = trace.ops[static_cast<size_t>(lanes)];  // a NaN is quiet after rounding
  const int half = rounded.micro == Micro::from_half ? rounded.operands[0] : trace.add(Micro::to_half, lanes);
  return trace.add(Micro::extend, half);
}

bool FusedLoopTrace::record(const FusedLoop& fused_loop, const FusedLoopForm& form,
                            const std::vector<bool>& varies, Ways& ways) {
  const bool quick_way = trace.quick;
  std::vector<int>& values = values_;
  values.assign(fused_loop.lanes.size(), -1);
  bits_.assign(fused_loop.lanes.size(), -1);
  for (size_t v = 0; v < fused_loop.inputs.size(); ++v)
    values[v] = !varies[v] && fused_loop.known[v]
                    ? trace.constant(std::bit_cast<uint32_t>(*fused_loop.known[v]))
                    : trace.input(varies[v] ? Micro::column : Micro::scalar, static_cast<int>(v),
                                  fused_loop.dtypes[v] == DType::bf16 || form.inputs[v].dtype == DType::bf16);
  for (const FusedLoopStep& step : fused_loop.steps) {
    const int typed = step.name == "where" ? step.in[1] : step.in[0];
    const TracedRow* row = find_traced(step.name, fused_loop.lanes[static_cast<size_t>(typed)]);
    if (!row) return false;
    int operands[most_operands] = {-1, -1, -1, -1};
    for (int k = 0; k < step.arity; ++k) operands[k] = values[static_cast<size_t>(step.in[k])];
    trace.quick = quick_way && varies[static_cast<size_t>(step.out)];  // values of a row have no guard
    values[static_cast<size_t>(step.out)] = row->record(operands);
  }
  trace.quick = quick_way;
  const auto value_of = [&](int value) { return values[static_cast<size_t>(value)]; };
  const auto lane = [&](int value) { return fused_loop.lanes[static_cast<size_t>(value)]; };
  ways = {};
  words.assign(fused_loop.stores.size(), false);
  for (size_t k = 0; k < fused_loop.outputs.size(); ++k) {
    const FusedLoopForm::Array& to = form.outputs[k];
    if (!goes_to(lane(fused_loop.outputs[k].value), to.dtype) || (!to.columns && !whole_lane(to.dtype)))
      return false;
    const int value = fused_loop.outputs[k].value;
    int lanes = value_of(value);
    if (to.dtype == DType::f32 && moved(fused_loop, value) && from_f16_[static_cast<size_t>(value)]) {
      const int bits = bits_of_half(fused_loop, value);
      lanes = find_traced("of bits.f16", Lane::f32)->record(&bits);
    }
    // Elements that only products read may flush subnormals.
    ways.outputs.push_back(to.dtype == DType::bf16 && rounds_to_bf16_ ? trace.add(Micro::to_bf16, lanes)
                                                                      : stored(lanes, to.dtype));
  }
  for (size_t k = 0; k < fused_loop.stores.size(); ++k) {
    const int value = fused_loop.stores[k].value;
    if (!goes_to(lane(value), form.stores[k].dtype)) return false;
    const bool words = form.stores[k].dtype == DType::f16 && moved(fused_loop, value);
    this->words[k] = words;
    ways.stores.push_back(words ? bits_of_half(fused_loop, value)
                                : stored(value_of(value), form.stores[k].dtype));
  }
  for (size_t k = 0; k < fused_loop.reductions.size(); ++k) {
    const FusedLoopReduction& reduction = fused_loop.reductions[k];
    // A value that repeats along the columns counts several times: refused, so that the interpreter runs it.
    const bool across = varies[static_cast<size_t>(reduction.value)] ||
                        (reduction.factor >= 0 && varies[static_cast<size_t>(reduction.factor)]);
    if (!across) return false;
    ways.reductions.emplace_back(value_of(reduction.value),
                                 reduction.factor < 0 ? -1 : value_of(reduction.factor));
  }
  return true;
}

}  // namespace tile::cpu::jit
