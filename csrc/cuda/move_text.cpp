// Emits moves of elements: a struct that describes the move, the call that uses it, and the list of moves.
#include <algorithm>
#include <bit>

#include "cuda/emitter.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Returns an expression that maps an index to a table's value, computed from the index's bits if the values
// are sums over them.
std::string table_text(const std::vector<int64_t>& values) {
  const std::vector<int> table(values.begin(), values.end());
  std::vector<Mode> modes;
  const int count = static_cast<int>(table.size());
  int64_t last = 0;  // the value of the previous bit
  for (int bit = 1; std::has_single_bit(table.size()) && bit < count; bit *= 2) {
    const int64_t adds = values[static_cast<size_t>(bit)] - values[0];
    if (!modes.empty() && adds == 2 * last)
      modes.back().extent *= 2;
    else
      modes.push_back({Level::reg, bit, 2, static_cast<int>(modes.size()), 1});
    last = adds;
  }
  return map_text(table, Layout(Shape(modes.size() + 1, 2), modes));
}
std::string table_text(const std::vector<int>& values) {
  return table_text(std::vector<int64_t>(values.begin(), values.end()));
}

// Selects among bits: "i == 0 ? lane() & 1 : lane() >> 3 & 1".
template <class Bits, class Show>
std::string bits_text(const Bits& bits, Show show) {
  std::string text;
  for (size_t i = 0; i < bits.size(); ++i)
    text += str(i + 1 < bits.size() ? str("i == ", i, " ? ") : "", show(bits[i]),
                i + 1 < bits.size() ? " : " : "");
  return text.empty() ? "false" : text;
}
std::string bit_text(Level level, int bit) {
  return str("(", level == Level::lane ? "lane()" : "warp()", bit ? str(" >> ", bit) : "", " & 1)");
}

std::string thread_text(const std::vector<Mode>& modes, int threads, int blocks) {
  const std::string text =
      join(modes, " + ", [&](const Mode& mode) { return index_text(mode, 1, threads, blocks); });
  return text.empty() ? "0" : text;
}

std::string body_of(const ShufflePlan& plan, int threads) {
  using Bit = ShufflePlan::Bit;
  using Exchange = ShufflePlan::Exchange;
  return str(
      "  static constexpr int together = ", plan.together, ", words = ", plan.words,
      ", selects = ", plan.selects.size(), ", exchanges = ", plan.exchanges.size(), ";\n",
      "  static constexpr bool own_lane = ", plan.own_lane ? "true" : "false", ";\n",
      "  TILE static constexpr int given(int r) { ", table_text(plan.from), " }\n",
      "  TILE static constexpr int taken(int r) { ", table_text(plan.to), " }\n",
      "  TILE static constexpr int flip(int r) { ", table_text(plan.flips), " }\n",
      "  TILE static bool picks_second(int i) { return ",
      bits_text(plan.selects, [](const Bit& bit) { return bit_text(bit.level, bit.bit); }), "; }\n",
      "  TILE static bool gives_other(int i) { return ",
      bits_text(plan.exchanges, [](const Exchange& each) { return bit_text(Level::lane, each.given); }),
      "; }\n", "  TILE static bool takes_other(int i) { return ",
      bits_text(plan.exchanges, [](const Exchange& each) { return bit_text(Level::lane, each.taken); }),
      "; }\n", "  TILE static int lane_of() { return ", thread_text(plan.lane, threads, 1), "; }\n");
}

std::string body_of(const SharedMove& move, int threads, int blocks) {
  std::string folded = "at";
  for (const SharedMove::Fold& fold : move.folds)
    folded = str("at ^ (at >> ", fold.from, " & ", (1 << fold.bits) - 1, ") << ", fold.to);
  return str(
      "  static constexpr int writes = ", move.write.at.size(), ", write = ", move.write.together,
      ", reads = ", move.read.at.size(), ", read = ", move.read.together, ", exchanged = ", move.exchanged(),
      ";\n", "  TILE static constexpr int folded(int at) { return ", folded, "; }\n",
      "  TILE static constexpr int given(int r) { ", table_text(move.given), " }\n",
      "  TILE static constexpr int taken(int r) { ", table_text(move.taken), " }\n",
      "  TILE static constexpr int write_at(int r) { ", table_text(move.write.at), " }\n",
      "  TILE static constexpr int read_at(int r) { ", table_text(move.read.at), " }\n",
      "  TILE static int write_thread() { return ", thread_text(move.write.thread, threads, blocks), "; }\n",
      "  TILE static int read_thread() { return ", thread_text(move.read.thread, threads, blocks), "; }\n");
}

bool in_loop(const Op& op) {
  for (const Op* around = op.parent->parent; around; around = around->parent->parent)
    if (around->is("for") || around->is("loop")) return true;
  return false;
}

std::string at_text(const Op& op) {
  return op.location.known() ? str(op.name(), " at ", op.location) : std::string(op.name());
}

// Names the op that determined the layout: "4 registers along axis 1, …, as load at softmax.cpp:12 wants it".
// A layout that no value has comes from the op itself.
template <class Values>
std::string wanted_text(const Layout& layout, const Op& op, const Values& values, const LayoutPlan& plan) {
  const std::string text = layout.modes().empty() ? "one element" : describe(layout);
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value* value) {
    return is_tile(value) && plan.of(value) == layout;
  });
  const Op* origin = found == values.end() ? &op : plan.origin(*found);
  return origin ? str(text, ", as ", at_text(*origin), " wants it") : text;
}

}  // namespace

void Emitter::note(const Op& op, DType dtype, const Layout& from, const Layout& to, const MovePlan& plan) {
  conversions_.push_back({.op = std::string(op.name()),
                          .where = op.location.known() ? str(op.location) : std::string(),
                          .type = str(Type::tile(dtype, from.shape())),
                          .from = wanted_text(from, op, op.operands, plan_),
                          .to = wanted_text(to, op, op.results, plan_),
                          .in_loop = in_loop(op),
                          .way = plan.way,
                          .shared_bytes = plan.work.shared_bytes,
                          .reason = plan.reason});
}

std::string Emitter::moved(const Op& op, const std::string& from, DType dtype, const Layout& from_layout,
                           const Weights& from_weights, const Layout& to_layout, const Weights& to_weights) {
  need("move.cuh");
  const int bytes = info(dtype).bytes, threads = plan_.threads(), blocks = plan_.cluster();
  if (plan_.async() && !register_map(from_layout, from_weights, to_layout, to_weights, threads, blocks)) {
    leave_group(op);
    return {};
  }
  const MovePlan plan = plan_move({from_layout, from_weights}, {to_layout, to_weights}, bytes, threads,
                                  blocks, target_.shared_bytes - shared_bytes() + scratch_bytes_);
  if (plan.way == Way::registers)
    return str("registers<", layout(to_layout), ">(", from, ", [](int r) { ",
               map_text(plan.registers, to_layout), " })");
  note(op, dtype, from_layout, to_layout, plan);
  if (plan.way == Way::shuffles)
    return str("shuffled<", layout(to_layout), ", ",
               define_struct("Shuffle", body_of(*plan.shuffle, threads)), ">(", from, ", ", line_number(op),
               ")");
  // The kernel is emitted again with a smaller cluster, so this move need not be emitted.
  leaves_block_ |= from_layout.across_blocks();
  if (leaves_block_) return {};
  // Small moves alternate between two buffers, so that the barrier of the next move also protects this one.
  const bool small = plan.work.shared_bytes <= most_double_bytes;
  std::string memory = "shared_memory()";
  if (small)
    memory = double_buffer(op, plan.work.shared_bytes);
  else
    need_shared(op, plan.work.shared_bytes);
  if (!small) leave_shared();
  const std::string operands = str(">(", from, ", ", memory, ", ", line_number(op), ")");
  if (plan.shared)
    return str("through_memory<", layout(to_layout), ", ",
               define_struct("Indices", body_of(*plan.shared, threads, blocks)), operands);
  return str("through_shared<", layout(to_layout), ", ", weights_text(from_weights), ", ",
             weights_text(to_weights), operands);
}

}  // namespace tile::cuda
