// Pairs bits of the lane number with bits of the register number.
#include "cuda/shuffle_plan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "cuda/register_map.h"

namespace tile::cuda {
namespace {

constexpr int lane_bits = 5;

int bit_of(int stride) { return std::countr_zero(static_cast<unsigned>(stride)); }

// The source of a bit of the other lane's number: a bit of this lane's or warp's number, or 0.
struct Source {
  enum class Of { own, lane, warp, zero } of = Of::own;
  int bit = 0;
};

struct Passive {  // in registers before and after the shuffle
  int extent, from, to;
};
struct Crossing {
  int reg, bit;  // stride of the register, bit of the lane or warp
};

// Merges runs of consecutive bits into modes.
std::vector<Mode> lane_modes(const std::array<Source, lane_bits>& sources, bool& own) {
  own = true;
  std::vector<Mode> modes;
  for (int bit = 0; bit < lane_bits; ++bit) {
    Source source = sources[static_cast<size_t>(bit)];
    if (source.of == Source::Of::own) source = {Source::Of::lane, bit};
    own = own && source.of == Source::Of::lane && source.bit == bit;
    if (source.of == Source::Of::zero) continue;
    const Level level = source.of == Source::Of::lane ? Level::lane : Level::warp;
    const int stride = 1 << source.bit, weight = 1 << bit;
    if (!modes.empty()) {
      Mode& last = modes.back();
      if (last.level == level && last.stride * last.extent == stride && last.weight * last.extent == weight) {
        last.extent *= 2;
        continue;
      }
    }
    modes.push_back({level, stride, 2, 0, weight});
  }
  return modes;
}

class Planner {
 public:
  // Returns false if the mode leaves its warp.
  bool add(const IndexMode& mode) {
    if (!mode.to) return missing_behind(mode);
    if (!mode.from) return true;  // padding, or a copy
    const IndexCoordinate from = *mode.from, to = *mode.to;
    const auto is = [&](Level a, Level b) { return from.level == a && to.level == b; };
    if (from.level == Level::cta || to.level == Level::cta || from.level == Level::warp) return from == to;
    if (is(Level::reg, Level::reg))
      passive.push_back({mode.extent, from.stride, to.stride});
    else if (is(Level::reg, Level::lane))
      to_lane.push_back({from.stride, bit_of(to.stride)});
    else if (is(Level::reg, Level::warp))
      to_warp.push_back({from.stride, bit_of(to.stride)});
    else if (is(Level::lane, Level::reg))
      to_register.push_back({to.stride, bit_of(from.stride)});
    else
      read(from.stride) = {to.level == Level::lane ? Source::Of::lane : Source::Of::warp, bit_of(to.stride)};
    return true;
  }

  bool pair(const Layout& from);
  ShufflePlan plan(const Layout& to, int element_bytes) const;

 private:
  // The result has no such mode: the element is read where the mode is 0.
  bool missing_behind(const IndexMode& mode) {
    if (mode.from->level == Level::lane) read(mode.from->stride) = {Source::Of::zero, 0};
    return mode.from->level != Level::warp && mode.from->level != Level::cta;
  }
  Source& read(int stride) { return sources[static_cast<size_t>(bit_of(stride))]; }

  std::vector<Passive> passive;
  std::vector<Crossing> to_lane, to_warp, to_register;
  std::array<Source, lane_bits> sources{};
  struct Pair {
    int reg, given, taken, to;  // stride before; the lanes' bits; stride after
  };
  std::vector<Pair> pairs;
  std::vector<std::pair<int, ShufflePlan::Bit>> selects;  // stride before
};

bool Planner::pair(const Layout& from) {
  const int free = from.replicas(32);
  int used = 0;
  const auto select = [&](const Crossing& crossing, int bit) {
    used |= 1 << bit;
    sources[static_cast<size_t>(bit)] = {Source::Of::lane, crossing.bit};
    selects.push_back({crossing.reg, {Level::lane, bit}});
  };
  // Lanes that hold the same elements can each send a different one. Prefer sources that are the receiving
  // lane itself.
  std::erase_if(to_lane, [&](const Crossing& crossing) {
    if (!(free >> crossing.bit & 1)) return false;
    select(crossing, crossing.bit);
    return true;
  });
  const auto exchange = [&](const Crossing& crossing, bool same) {
    const auto with = std::find_if(to_register.begin(), to_register.end(),
                                   [&](const Crossing& other) { return !same || other.bit == crossing.bit; });
    if (with == to_register.end()) return false;
    sources[static_cast<size_t>(with->bit)] = {Source::Of::lane, crossing.bit};
    pairs.push_back({crossing.reg, with->bit, crossing.bit, with->reg});
    to_register.erase(with);
    return true;
  };
  std::erase_if(to_lane, [&](const Crossing& crossing) { return exchange(crossing, true); });
  std::erase_if(to_lane, [&](const Crossing& crossing) {
    const int left = free & ~used;
    if (left) return select(crossing, bit_of(left & -left)), true;
    return exchange(crossing, false);
  });
  if (!to_lane.empty()) return false;
  for (const Crossing& crossing : to_warp) selects.push_back({crossing.reg, {Level::warp, crossing.bit}});
  for (const Crossing& crossing : to_register)
    sources[static_cast<size_t>(crossing.bit)] = {Source::Of::zero, 0};
  return true;
}

ShufflePlan Planner::plan(const Layout& to, int element_bytes) const {
  ShufflePlan plan;
  plan.lane = lane_modes(sources, plan.own_lane);
  // The modes of a word's number: exchanged modes, then modes that lanes send one after another, then modes
  // that stay in registers.
  struct WordMode {
    int extent, from, to, flip;
  };
  std::vector<WordMode> words, parts;
  for (const Pair& pair : pairs) {
    words.push_back({2, pair.reg, pair.to, 1 << pair.given});
    plan.exchanges.push_back({pair.given, pair.taken});
  }
  for (const Crossing& crossing : to_register) words.push_back({2, 0, crossing.reg, 1 << crossing.bit});
  std::vector<Passive> kept = passive;
  std::sort(kept.begin(), kept.end(), [](const Passive& a, const Passive& b) { return a.from < b.from; });
  for (const Passive& each : kept) {
    const bool part = each.extent == 2 && plan.together * 2 * element_bytes <= 4;
    (part ? parts : words).push_back({each.extent, each.from, each.to, 0});
    if (part) plan.together *= 2;
  }
  for (const WordMode& mode : words) plan.words *= mode.extent;
  const auto sum = [](const std::vector<WordMode>& modes, int index, int WordMode::*of) {
    int total = 0;
    for (const WordMode& mode : modes) total += index % mode.extent * (mode.*of), index /= mode.extent;
    return total;
  };
  std::vector<int> flat(static_cast<size_t>(to.registers()), 0);
  for (int w = 0; w < plan.words << selects.size(); ++w) {
    int selected = 0;
    for (size_t i = 0; i < selects.size(); ++i)
      if ((w / plan.words) >> i & 1) selected += selects[i].first;
    for (int e = 0; e < plan.together; ++e) {
      const int word = w % plan.words;
      plan.from.push_back(selected + sum(words, word, &WordMode::from) + sum(parts, e, &WordMode::from));
      if (w < plan.words)
        flat[static_cast<size_t>(sum(words, word, &WordMode::to) + sum(parts, e, &WordMode::to))] =
            word * plan.together + e;
    }
    if (w < plan.words) plan.flips.push_back(sum(words, w, &WordMode::flip));
  }
  for (const auto& [stride, bit] : selects) plan.selects.push_back(bit);
  // Several registers may hold the same element; use the one whose other modes are all 0.
  for (int r = 0; r < to.registers(); ++r) {
    int first = 0;
    for (const auto* modes : {&words, &parts})
      for (const WordMode& mode : *modes) first += r / mode.to % mode.extent * mode.to;
    plan.to.push_back(flat[static_cast<size_t>(first)]);
  }
  return plan;
}

int lane_of(const std::vector<Mode>& modes, int thread) {
  int64_t lane = 0;
  for (const Mode& mode : modes) {
    const int index = mode.level == Level::lane ? thread % 32 : thread / 32;
    lane += index / mode.stride % mode.extent * mode.weight;
  }
  return static_cast<int>(lane);
}

}  // namespace

int ShufflePlan::shuffles() const {
  return static_cast<int>(
      std::count_if(flips.begin(), flips.end(), [&](int flip) { return flip || !own_lane; }));
}
int ShufflePlan::picks() const {
  return words * ((1 << selects.size()) - 1) + 2 * words * static_cast<int>(exchanges.size());
}

std::pair<int, int> ShufflePlan::source(int thread, int r) const {
  const int warp = thread / 32, at = to[static_cast<size_t>(r)];
  const auto bit = [](int number, int i) { return number >> i & 1; };
  int word = at / together;
  for (size_t i = 0; i < exchanges.size(); ++i) word ^= bit(thread, exchanges[i].taken) << i;
  const int giver = warp * 32 + (lane_of(lane, thread) ^ flips[static_cast<size_t>(word)]);
  for (size_t i = 0; i < exchanges.size(); ++i) word ^= bit(giver, exchanges[i].given) << i;
  for (size_t i = 0; i < selects.size(); ++i)
    word += (bit(selects[i].level == Level::lane ? giver : warp, selects[i].bit) * words) << i;
  return {giver, from[static_cast<size_t>(word * together + at % together)]};
}

std::optional<ShufflePlan> shuffle_plan(const Layout& from, const Weights& from_weights, const Layout& to,
                                        const Weights& to_weights, int element_bytes, int threads, int blocks,
                                        const char*& why_not) {
  const auto modes = index_modes(from, from_weights, to, to_weights);
  if (!modes) return why_not = "the modes of the two layouts have no common split", std::nullopt;
  Planner planner;
  bool complete = !from.padded() && !to.padded();
  for (const IndexMode& mode : *modes) {
    if (!planner.add(mode)) return why_not = "elements go to other warps", std::nullopt;
    complete = complete && mode.from && mode.to;
  }
  if (!planner.pair(from)) return why_not = "lanes would have to send two elements at once", std::nullopt;
  ShufflePlan plan = planner.plan(to, element_bytes);
  // Padding may have the index of an element elsewhere.
  for (int thread = 0; !complete && thread < threads; ++thread)
    for (int r = 0; r < to.registers(); ++r) {
      const auto [giver, given] = plan.source(thread, r);
      for (int block = 0; block < blocks; ++block)
        if (holds(to, block, thread, r) &&
            !(holds(from, block, giver, given) && linear_index(from, from_weights, block, giver, given) ==
                                                      linear_index(to, to_weights, block, thread, r)))
          return why_not = "there is padding between the elements", std::nullopt;
    }
  return plan;
}

}  // namespace tile::cuda
