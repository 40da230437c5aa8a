// Computes the cost of each way to move elements and chooses the cheapest.
#include "cuda/conversion.h"

#include "cuda/register_map.h"
#include "cuda/shared_layout.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr int lanes = 32;

MoveWork work_of(const ShufflePlan& plan, int element_bytes, int results) {
  const int halves = element_bytes == 8 ? 2 : 1;
  const int packs = plan.together > 1 ? plan.words * (plan.together - 1) + results : 0;
  return {.shuffles = plan.shuffles() * halves, .picks = plan.picks() * halves + packs};
}

int barriers_of(int64_t shared_bytes) { return shared_bytes <= most_double_bytes ? 1 : 2; }

MoveWork work_of(const SharedMove& move, int element_bytes) {
  const int64_t bytes = move.elements * element_bytes;
  return {.accesses = static_cast<int>(move.write.at.size() + move.read.at.size()),
          .passes = move.write.passes + move.read.passes,
          .barriers = barriers_of(bytes),
          .shared_bytes = bytes};
}

// Returns the work of a move through row-major order, element by element.
MoveWork work_in_order(const MoveEnd& from, const MoveEnd& to, int element_bytes) {
  MoveWork work;
  int64_t last = 1;
  for (size_t axis = 0; axis < from.weights.size(); ++axis)
    last += (from.layout.shape()[axis] - 1) * from.weights[axis];
  work.shared_bytes = last * element_bytes;
  work.barriers = barriers_of(work.shared_bytes);
  for (const MoveEnd* end : {&from, &to}) {
    std::vector<int64_t> offsets;
    for (int lane = 0; lane < lanes; ++lane)
      offsets.push_back(linear_index(end->layout, end->weights, 0, lane, 0) * element_bytes);
    work.accesses += end->layout.registers();
    work.passes += end->layout.registers() * shared_passes(offsets, element_bytes);
  }
  return work;
}

std::string count_text(int count, const char* of) { return str(count, ' ', of, count == 1 ? "" : "s"); }

std::string shared_text(const SharedMove& move, int element_bytes) {
  const auto side = [&](const char* done, const SharedMove::Side& side) {
    return str(done, ' ', count_text(side.together * element_bytes, "byte"), " at once",
               side.passes > side.least ? str(" in ", side.passes, " passes for ", side.least) : "");
  };
  const bool free = move.write.passes == move.write.least && move.read.passes == move.read.least;
  return str(side("written", move.write), ", ", side("read", move.read),
             free ? ", without bank conflicts" : "");
}

}  // namespace

int64_t cost_of(const MoveWork& work, int warps) {
  constexpr int64_t shuffle = 2, pick = 1, access = 1, pass = 2, barrier = 64;
  return warps * (work.shuffles * shuffle + work.picks * pick + work.accesses * access + work.passes * pass) +
         work.barriers * barrier;
}

MovePlan plan_move(const MoveEnd& from, const MoveEnd& to, int element_bytes, int threads, int blocks,
                   int64_t room) {
  MovePlan plan;
  if (auto map = register_map(from.layout, from.weights, to.layout, to.weights, threads, blocks)) {
    plan.registers = std::move(*map);
    plan.reason = "each element is in its thread";
    return plan;
  }
  const char* why_not = "";
  plan.shuffle =
      shuffle_plan(from.layout, from.weights, to.layout, to.weights, element_bytes, threads, blocks, why_not);
  plan.shared = shared_move(from.layout, from.weights, to.layout, to.weights, element_bytes, threads);
  MoveWork shared =
      plan.shared ? work_of(*plan.shared, element_bytes) : work_in_order(from, to, element_bytes);
  if (shared.shared_bytes > room) {
    shared = work_in_order(from, to, element_bytes);
    plan.shared.reset();
  }
  const int warps = threads / lanes;
  if (plan.shuffle) {
    const MoveWork shuffled = work_of(*plan.shuffle, element_bytes, to.layout.registers());
    const int64_t cost = cost_of(shuffled, warps), other = cost_of(shared, warps);
    const std::string text = str(count_text(shuffled.shuffles, "shuffle"), " and ",
                                 count_text(shuffled.picks, "select"), " a thread");
    if (cost <= other || shared.shared_bytes > room) {
      plan.way = Way::shuffles;
      plan.work = shuffled;
      plan.reason = str(text, " cost ", cost,
                        shared.shared_bytes > room ? std::string(", and shared memory has no room")
                                                   : str(", through shared memory it is ", other));
      return plan;
    }
    plan.reason = str(text, " cost ", cost, ", and through shared memory it is ", other);
  } else {
    plan.reason = why_not;
  }
  plan.way = Way::shared;
  plan.work = shared;
  plan.reason += plan.shared ? "; " + shared_text(*plan.shared, element_bytes) : "; element by element";
  return plan;
}

std::string_view name_of(Way way) {
  static constexpr std::string_view names[] = {"registers", "shuffles", "shared memory"};
  return names[static_cast<size_t>(way)];
}

std::string describe(const Conversion& conversion) {
  return str("// moves ", conversion.type, " for ", conversion.op,
             conversion.where.empty() ? "" : " at " + conversion.where,
             conversion.in_loop ? ", in a loop" : "", ", by ", name_of(conversion.way),
             conversion.shared_bytes ? str(" (", conversion.shared_bytes, " bytes)") : "", ": ",
             conversion.reason, "\n//   from ", conversion.from, "\n//   to ", conversion.to, '\n');
}

}  // namespace tile::cuda
