// Allocates registers that live across the loops, and emits the loops.
#include "cpu/jit/fused_loop_nest.h"

#include <algorithm>
#include <bit>

#include "cpu/jit/masks.h"
#include "cpu/jit/traced_rows.h"

namespace tile::cpu::jit {
namespace {

constexpr int saved[] = {rbx, r12, r13, r14, r15};
// rdi: arguments; rsi: remaining rows; rax: column; rdx: its limit; rcx: scratch; rbp: the caller's stack.
constexpr int for_pointers[] = {r8, r9, r10, r11, rbx, r12, r13, r14, r15};
constexpr int rows_offset = 0, cols_offset = 8, arrays_offset = 16;
constexpr int least_free = 6;  // least number of vector registers for a body
constexpr int line = 64;       // bytes of a cache line

Operand argument(int offset) { return Operand::at(rdi, offset); }
int at_offset(int participant) { return arrays_offset + 16 * participant; }
int row_offset(int participant) { return at_offset(participant) + 8; }

}  // namespace

FusedLoopNest::FusedLoopNest(const FusedLoopForm& form, const FusedLoopTrace& trace, Vectors vectors)
    : form_(form), trace_(trace), code_(vectors), around_{trace.trace, constants_, {}, {}, {}, vectors} {
  for (const auto* arrays : {&form.inputs, &form.outputs, &form.stores, &form.reductions, &form.prefetch})
    arrays_.insert(arrays_.end(), arrays->begin(), arrays->end());
  for (const FusedLoopForm::Array& input : form.inputs) around_.dtypes.push_back(input.dtype);
  around_.homes.resize(trace.trace.ops.size());
  for (size_t i = 0; i < trace.trace.ops.size(); ++i) {
    const MicroOp& op = trace.trace.ops[i];
    if (op.micro == Micro::constant) around_.homes[i] = constants_.operand(op.immediate);
    if (op.micro == Micro::table)
      around_.homes[i] = constants_.operand(powers_of_sixteenths(static_cast<int>(op.immediate)));
  }
  around_.input = [this](int input) { return array(input).columns ? address(input) : lane_address(input); };
}

void FusedLoopNest::write() {
  find_pointers();
  choose_unroll();
  find_row_values();
  pin();
  enter();
  Label next;
  code_.bind(next);
  row_values();
  columns();
  finish_reductions();
  next_row();
  code_.add(rsi, -1);
  code_.jump(Condition::not_equal, next);
  leave();
  detours();
  const int slots = (around_.slots + 1) / 2 * 2;
  code_.set_number(frame_, bytes_of(code_.vectors()) * slots);
}

// Sums along the columns need several accumulators, since each addition waits for the previous one to the
// same accumulator; the order equals that of the interpreter's four.
void FusedLoopNest::choose_unroll() {
  int sums = 0;
  for (size_t k = 0; k < form_.reductions.size(); ++k) sums += sums_columns(k);
  unroll_ = sums == 1 || sums == 2 ? 4 : sums >= 5 ? 1 : 2;
  for (int k = 0; k < sums * unroll_; ++k)
    around_.registers &= ~(1u << (registers_of(code_.vectors()) - 1 - k));
}
// Returns true if two vectors of bf16 columns are processed as the even and the odd columns: 32 bytes are
// then read without unpacking and written without packing. Odd columns are already the high halves of lanes,
// so a store's final shift is omitted for them.
bool FusedLoopNest::pairs() const {
  const auto halves = [](const FusedLoopForm::Array& array) {
    return !array.columns || array.dtype == DType::bf16;
  };
  const auto shifted = [&](int value) {
    const MicroOp& op = trace_.trace.ops[static_cast<size_t>(value)];
    return op.micro == Micro::shift_right_zeros && op.immediate == 16 &&
           trace_.columns[static_cast<size_t>(value)];
  };
  return unroll_ == 2 && form_.reductions.empty() && !form_.stores.empty() &&
         std::none_of(form_.outputs.begin(), form_.outputs.end(),
                      [](const auto& out) { return out.columns; }) &&
         std::all_of(form_.inputs.begin(), form_.inputs.end(), halves) &&
         std::all_of(form_.stores.begin(), form_.stores.end(), halves) &&
         std::all_of(trace_.quick.stores.begin(), trace_.quick.stores.end(), shifted) &&
         std::all_of(trace_.slow.stores.begin(), trace_.slow.stores.end(), shifted);
}
int FusedLoopNest::accumulator(size_t k, int vector) const {
  int before = 0;
  for (size_t i = 0; i < k; ++i) before += sums_columns(i);
  return registers_of(code_.vectors()) - 1 - (before * unroll_ + vector);
}

void FusedLoopNest::find_row_values() {
  const auto& ops = trace_.trace.ops;
  std::vector<bool> wanted(ops.size(), false);
  const auto want = [&](int value) {
    if (value >= 0 && !trace_.columns[static_cast<size_t>(value)] &&
        !around_.homes[static_cast<size_t>(value)])
      wanted[static_cast<size_t>(value)] = true;
  };
  for (size_t i = 0; i < ops.size(); ++i)
    for (int operand : ops[i].operands)
      if (trace_.columns[i]) want(operand);
  for (const Ways* ways : {&trace_.quick, &trace_.slow}) {
    for (int value : ways->outputs) want(value);
    for (int value : ways->stores) want(value);
    for (const auto& [value, factor] : ways->reductions) want(value), want(factor);
  }
  for (size_t i = 0; i < ops.size(); ++i)
    if (wanted[i]) row_values_.push_back(static_cast<int>(i));
}

void FusedLoopNest::find_pointers() {
  pointers_.assign(arrays_.size(), -1);
  size_t next = 0;
  for (size_t i = 0; i < arrays_.size(); ++i)
    if (arrays_[i].columns && next < std::size(for_pointers)) pointers_[i] = for_pointers[next++];
}

// Registers that no vector needs hold the constants and row values that are read most often.
void FusedLoopNest::pin() {
  std::vector<int> reads(trace_.trace.ops.size(), 0);
  for (size_t i = 0; i < trace_.trace.ops.size(); ++i)
    for (int operand : trace_.trace.ops[i].operands)
      if (operand >= 0 && trace_.columns[i] && !trace_.columns[static_cast<size_t>(operand)])
        ++reads[static_cast<size_t>(operand)];
  const uint32_t used = used_registers();
  int spare = std::popcount(around_.registers) - std::max(std::popcount(used), least_free);
  while (spare-- > 0) {
    const auto most = std::max_element(reads.begin(), reads.end());
    if (*most == 0) break;
    *most = 0;
    const int reg = 31 - std::countl_zero(around_.registers);
    around_.registers &= ~(1u << reg);
    pinned_.emplace_back(static_cast<int>(most - reads.begin()), Operand::reg(reg));
  }
}

// Emits a vector of code for trial and keeps only its length.
uint32_t FusedLoopNest::used_registers() {
  Encoder code(code_.vectors());
  Surroundings around = around_;
  for (int value : row_values_) around.homes[static_cast<size_t>(value)] = around.slot(0);
  Label detour;
  const uint32_t used =
      write_vector(code, around, trace_.quick, {0, 0, Columns::all}, trace_.guard >= 0 ? &detour : nullptr);
  vector_bytes_ = code.size();
  return used;
}

Operand FusedLoopNest::address(int participant) {
  const int bytes = info(array(participant).dtype).bytes;
  int base = pointers_[static_cast<size_t>(participant)];
  if (base < 0) at_work_->load(base = rcx, argument(at_offset(participant)));
  Operand operand = Operand::indexed(base, rax, bytes);
  operand.offset = vector_ * code_.lanes() * bytes;
  return operand;
}
Operand FusedLoopNest::lane_address(int participant) {
  at_work_->load(rcx, argument(at_offset(participant)));
  return Operand::at(rcx, 0);
}

void FusedLoopNest::enter() {
  code_.push(rbp);
  for (int reg : saved) code_.push(reg);
  code_.move(rbp, rsp);
  code_.bit_and(rsp, -64);
  frame_ = code_.subtract(rsp, 0);
  at_work_ = &code_;
  code_.load(rsi, argument(rows_offset));
  for (size_t i = 0; i < pointers_.size(); ++i)
    if (pointers_[i] >= 0) code_.load(pointers_[i], argument(at_offset(static_cast<int>(i))));
  if (any_columns()) mask_columns();
  if (pairs()) {
    pair_slot_ = around_.slots;
    around_.slots += static_cast<int>(form_.stores.size());
  }
  if (form_.long_rows) {
    part_slot_ = around_.slots;
    around_.slots += unroll_ * static_cast<int>(form_.reductions.size());
  }
  for (const auto& [value, operand] : pinned_) {
    auto& home = around_.homes[static_cast<size_t>(value)];
    if (!home) continue;
    code_.vector(instructions::load, operand.number, 0, *home);
    home = operand;
  }
}

// Computes which lanes of a row's last vector are columns.
void FusedLoopNest::mask_columns() {
  Operand table = Operand::constant(mask_table);
  code_.load(rdx, argument(cols_offset));
  code_.bit_and(rdx, code_.lanes() - 1);
  if (code_.wide()) {
    code_.address(rcx, table);
    return code_.load_mask(column_mask, Operand::indexed(rcx, rdx, 2));
  }
  mask_slot_ = around_.new_slot();
  code_.negate(rdx);
  table.offset = 32;
  code_.address(rcx, table);
  code_.vector(instructions::load, 0, 0, Operand::indexed(rcx, rdx, 4));
  code_.vector(instructions::store, 0, 0, around_.slot(mask_slot_));
}

void FusedLoopNest::leave() {
  code_.move(rsp, rbp);
  for (size_t i = std::size(saved); i-- > 0;) code_.pop(saved[i]);
  code_.pop(rbp);
  code_.ret();
}

void FusedLoopNest::row_values() {
  for (int value : row_values_) around_.homes[static_cast<size_t>(value)].reset();
  {
    Body body(code_, around_);
    body.compute(row_values_);
    std::vector<Operand> homes;
    for (int value : row_values_) {
      const auto pinned = std::find_if(pinned_.begin(), pinned_.end(),
                                       [&](const auto& entry) { return entry.first == value; });
      const int reg = body.use(value);
      if (pinned != pinned_.end()) {
        homes.push_back(pinned->second);
        code_.vector(instructions::move, pinned->second.number, 0, Operand::reg(reg));
      } else {
        homes.push_back(around_.slot(around_.new_slot()));
        code_.vector(instructions::store, reg, 0, homes.back());
      }
      body.release();
    }
    for (size_t k = 0; k < form_.outputs.size(); ++k) {
      if (form_.outputs[k].columns) continue;
      const int reg = body.use(trace_.quick.outputs[k]);
      code_.vector(instructions::store_lane, reg, 0, lane_address(output(k)), 128);
      body.release();
    }
    for (size_t i = 0; i < row_values_.size(); ++i)
      around_.homes[static_cast<size_t>(row_values_[i])] = homes[i];
  }
  for (size_t k = 0; k < form_.reductions.size(); ++k)
    for (int v = 0; v < unroll_ && sums_columns(k); ++v)
      code_.vector(instructions::load, accumulator(k, v), 0,
                   constants_.operand(trace_.combinations[k]->identity));
  begin_parts();
}

void FusedLoopNest::columns() {
  const int lanes = code_.lanes();
  code_.clear(rax);
  Label part, iteration, rest, tail, done;
  code_.bind(part);
  code_.load(rdx, argument(cols_offset));
  code_.bit_and(rdx, -lanes * unroll_);
  code_.compare(rax, rdx);
  code_.jump(Condition::not_below, rest);
  if (form_.long_rows) {
    Label last;
    code_.address(rcx, Operand::at(rax, most_summed));
    code_.compare(rdx, rcx);
    code_.jump(Condition::below, last);
    code_.move(rdx, rcx);
    code_.bind(last);
  }
  code_.bind(iteration);
  prefetch_lines();
  if (pair_slot_ < 0) {
    for (int v = 0; v < unroll_; ++v) vector({v, v, Columns::all});
  } else {
    for (Columns half : {Columns::even, Columns::odd}) vector({0, 0, half});
  }
  code_.add(rax, lanes * unroll_);
  code_.compare(rax, rdx);
  code_.jump(Condition::below, iteration);
  if (form_.long_rows) {
    add_parts(false);
    code_.jump(Condition::always, part);
  }
  code_.bind(rest);
  code_.load(rdx, argument(cols_offset));
  code_.bit_and(rdx, -lanes);
  for (int v = 0; v + 1 < unroll_; ++v) {
    code_.compare(rax, rdx);
    code_.jump(Condition::not_below, tail);
    vector({0, v, Columns::all});
    code_.add(rax, lanes);
  }
  code_.bind(tail);
  if (any_columns()) {
    code_.load(rdx, argument(cols_offset));
    code_.compare(rax, rdx);
    code_.jump(Condition::not_below, done);
    vector({0, unroll_ - 1, Columns::some});
    code_.bind(done);
  }
}

// Returns true if processing one cache line of an input takes so much code that the core, which looks some
// hundred instructions ahead, would issue the loads of the next lines too late.
bool FusedLoopNest::hides_next(const FusedLoopForm::Array& input) const {
  constexpr int least_bytes = 170;  // of code per line; shorter code is memory-bound anyway
  return vector_bytes_ * line >= least_bytes * code_.lanes() * info(input.dtype).bytes;
}

// Prefetches one cache line at a time, in whole iterations only.
void FusedLoopNest::prefetch_lines() {
  constexpr int next_bytes = 2048;  // of an input, from the current column on
  vector_ = 0;
  const auto fetch = [&](int participant, int distance) {
    Operand operand = address(participant);
    operand.offset += distance;
    for (int left = unroll_ * code_.lanes() * operand.scale; left > 0; left -= line, operand.offset += line)
      code_.prefetch(operand);
  };
  for (size_t k = 0; k < form_.inputs.size(); ++k)
    if (form_.inputs[k].streams && hides_next(form_.inputs[k])) fetch(static_cast<int>(k), next_bytes);
  for (size_t k = 0; k < form_.prefetch.size(); ++k) fetch(prefetch(k), 0);
}

void FusedLoopNest::vector(const Iteration& iteration) {
  if (trace_.guard < 0) {
    write_vector(code_, around_, trace_.quick, iteration, nullptr);
    return;
  }
  Detour& detour = detours_.emplace_back(Detour{iteration, {}, {}});
  write_vector(code_, around_, trace_.quick, iteration, &detour.from);
  code_.bind(detour.back);
}

void FusedLoopNest::detours() {
  for (Detour& detour : detours_) {
    code_.bind(detour.from);
    write_vector(code_, around_, trace_.slow, detour.iteration, nullptr);
    code_.jump(Condition::always, detour.back);
  }
}

// Emits a vector in one of its two ways. If the guard fails, the code jumps to `detour` before it writes
// anything. Returns the registers used.
uint32_t FusedLoopNest::write_vector(Encoder& code, Surroundings& around, const Ways& all_ways,
                                     const Iteration& iteration, Label* detour) {
  at_work_ = &code;
  vector_ = iteration.vector;
  Ways ways = all_ways;
  if (iteration.columns == Columns::odd)
    for (int& store : ways.stores) store = trace_.trace.ops[static_cast<size_t>(store)].operands[0];
  std::vector<int> roots;
  if (detour) roots.push_back(trace_.guard);
  collect(ways, roots);
  Body body(code, around, iteration.columns, around.slot(mask_slot_));
  body.compute(roots);
  if (detour) {
    const Condition some_are_not = body.test(trace_.guard);
    body.release();
    code.jump(some_are_not, *detour);
  }
  write_results(code, body, ways, iteration);
  return body.touched();
}

void FusedLoopNest::next_row() {
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const int participant = static_cast<int>(i);
    if (pointers_[i] >= 0) {
      code_.add(pointers_[i], argument(row_offset(participant)));
    } else {
      code_.load(rcx, argument(at_offset(participant)));
      code_.add(rcx, argument(row_offset(participant)));
      code_.store(argument(at_offset(participant)), rcx);
    }
  }
}

std::vector<uint8_t> FusedLoopNest::pool() const {
  const auto& numbers = constants_.numbers();
  const Vectors vectors = code_.vectors();
  std::vector<uint8_t> bytes(numbers.size() * static_cast<size_t>(bytes_of(vectors)) + mask_table_bytes, 0);
  const auto put = [&](int32_t offset, uint32_t value, int count) {
    for (int byte = 0; byte < count; ++byte)
      *(bytes.end() + offset + byte) = static_cast<uint8_t>(value >> 8 * byte);
  };
  for (int n = 0; n < code_.lanes(); ++n) {
    if (code_.wide())
      put(mask_table_offset() + 2 * n, (1u << n) - 1, 2);
    else
      put(mask_table_offset() + 4 * n, ~0u, 4);
  }
  for (const auto& [lanes, number] : numbers)
    for (int lane = 0; lane < code_.lanes(); ++lane)
      put(pool_offset(number, vectors) + 4 * lane, lanes[static_cast<size_t>(lane)], 4);
  return bytes;
}

}  // namespace tile::cpu::jit
