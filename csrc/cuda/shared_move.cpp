// Chooses an order of the elements' modes in shared memory by counting the bank conflicts of each candidate.
#include "cuda/shared_move.h"

#include <algorithm>
#include <bit>

#include "cuda/shared_layout.h"

namespace tile::cuda {
namespace {

constexpr int lanes = 32, most_bytes = 16;

int log2_of(int64_t x) { return std::countr_zero(static_cast<uint64_t>(x)); }

using End = std::optional<IndexCoordinate> IndexMode::*;  // from or to

bool read_at(const IndexMode& mode, End end, Level level) { return mode.*end && (mode.*end)->level == level; }
// Returns the mode's bit of the lane number, or `lanes` if it is not read from the lane.
int lane_bit(const IndexMode& mode, End end) {
  return read_at(mode, end, Level::lane) ? log2_of((mode.*end)->stride) : lanes;
}

class Order {
 public:
  Order(const std::vector<IndexMode>& all, int element_bytes) : bytes(element_bytes) {
    for (const IndexMode& mode : all)
      if (mode.from) (mode.extent == 2 ? twos : odd).push_back(mode);
  }

  // Returns a move whose lowest `many` modes are register modes of one side, preferably of both sides. Next
  // come the modes that distinguish the lanes of either side, which share the banks through folds.
  SharedMove ordered(End vector, int many, const Layout& from, const Layout& to, int threads) const;

 private:
  int bytes;
  std::vector<IndexMode> twos, odd;
};

// Returns how many of the first modes are register modes on that side.
int vector_modes(const std::vector<IndexMode>& order, size_t count, End end) {
  int modes = 0;
  while (modes < static_cast<int>(count) && read_at(order[static_cast<size_t>(modes)], end, Level::reg))
    ++modes;
  return modes;
}

// Returns in how many bits the lanes that are served at once differ.
int served_bits(int access_bytes) { return access_bytes == 16 ? 3 : access_bytes == 8 ? 4 : 5; }

// Fills one side; the modes are in offset order. Returns the register of each element accessed.
std::vector<int> accesses(const std::vector<IndexMode>& order, const std::vector<int64_t>& weights, End end,
                          int vector, SharedMove::Side& side) {
  side.together = 1 << vector;
  std::vector<int> registers(1, 0);
  side.at.assign(1, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const IndexMode& mode = order[i];
    if (!(mode.*end)) continue;
    const auto [level, stride] = *(mode.*end);
    if (level != Level::reg) {
      side.thread.push_back({level, stride, mode.extent, 0, weights[i]});
      continue;
    }
    const bool inside = static_cast<int>(i) < vector;
    const size_t count = registers.size(), addresses = side.at.size();
    for (int value = 1; value < mode.extent; ++value) {
      for (size_t r = 0; r < count; ++r) registers.push_back(registers[r] + value * stride);
      for (size_t a = 0; !inside && a < addresses; ++a) side.at.push_back(side.at[a] + value * weights[i]);
    }
  }
  return registers;
}

// Merges contiguous modes.
std::vector<Mode> joined(std::vector<Mode> modes) {
  std::sort(modes.begin(), modes.end(), [](const Mode& a, const Mode& b) {
    return a.level != b.level ? a.level < b.level : a.stride < b.stride;
  });
  std::vector<Mode> all;
  for (const Mode& mode : modes) {
    Mode* last = all.empty() ? nullptr : &all.back();
    if (last && last->level == mode.level && last->stride * last->extent == mode.stride &&
        last->weight * last->extent == mode.weight)
      last->extent *= mode.extent;
    else
      all.push_back(mode);
  }
  return all;
}

SharedMove Order::ordered(End vector, int many, const Layout& from, const Layout& to, int threads) const {
  std::vector<IndexMode> left = twos, order;
  const auto take = [&](auto&& wanted, size_t most) {
    std::vector<IndexMode> taken;
    for (size_t i = 0; i < left.size() && taken.size() < most;) {
      if (!wanted(left[i])) {
        ++i;
        continue;
      }
      taken.push_back(left[i]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    }
    order.insert(order.end(), taken.begin(), taken.end());
    return taken.size();
  };
  const End other = vector == &IndexMode::from ? &IndexMode::to : &IndexMode::from;
  // Use modes for the vector first that are low lane bits on the other side: they leave its lanes fewer bank
  // conflicts.
  std::stable_sort(left.begin(), left.end(), [&](const IndexMode& a, const IndexMode& b) {
    return lane_bit(a, other) < lane_bit(b, other);
  });
  const auto registers = [&](End end) {
    return [end](const IndexMode& mode) { return read_at(mode, end, Level::reg); };
  };
  const auto both = [&](const IndexMode& mode) {
    return registers(&IndexMode::from)(mode) && registers(&IndexMode::to)(mode);
  };
  size_t vectors = take(both, static_cast<size_t>(many));
  vectors += take(registers(vector), static_cast<size_t>(many) - vectors);
  const int write = vector_modes(order, vectors, &IndexMode::from),
            read = vector_modes(order, vectors, &IndexMode::to);

  // Modes in which lanes that are served at once differ, on each side.
  const auto differ = [&](End end, int modes) {
    return [end, bits = served_bits(bytes << modes)](const IndexMode& mode) {
      return lane_bit(mode, end) < bits;
    };
  };
  const auto writers = differ(&IndexMode::from, write), readers = differ(&IndexMode::to, read);
  const auto in_line = static_cast<size_t>(log2_of(SharedLayout::line_bytes / bytes));
  const auto room = [&] { return in_line > order.size() ? in_line - order.size() : 0; };
  take([&](const IndexMode& mode) { return writers(mode) && readers(mode); }, room());
  const auto count = [&](auto&& wanted) {
    return static_cast<size_t>(std::count_if(left.begin(), left.end(), wanted));
  };
  size_t pairs = 0, first = order.size();
  if (count(writers) + count(readers) > room()) pairs = std::min({count(writers), count(readers), room()});
  take(writers, pairs ? pairs : room());
  // Modes without a partner for a fold get a bit of the line themselves.
  take(writers, room());
  take(readers, std::min(room(), count(readers) - pairs));
  take([&](const IndexMode& mode) { return !readers(mode); }, room());
  const size_t second = order.size();
  if (pairs) take(readers, pairs);

  SharedMove move;
  if (pairs)
    move.folds.push_back({static_cast<int>(second), static_cast<int>(first), static_cast<int>(pairs)});
  take([](const IndexMode&) { return true; }, left.size());
  order.insert(order.end(), odd.begin(), odd.end());
  std::vector<int64_t> weights;
  for (const IndexMode& mode : order) weights.push_back(move.elements), move.elements *= mode.extent;

  move.given = accesses(order, weights, &IndexMode::from, write, move.write);
  const std::vector<int> got = accesses(order, weights, &IndexMode::to, read, move.read);
  // Several registers may hold the same element; use the one whose other modes are all 0.
  for (int r = 0; r < to.registers(); ++r) {
    int same = 0;
    for (const IndexMode& mode : order)
      if (read_at(mode, &IndexMode::to, Level::reg))
        same += r / mode.to->stride % mode.extent * mode.to->stride;
    move.taken.push_back(static_cast<int>(std::find(got.begin(), got.end(), same) - got.begin()));
  }
  const int copies = from.replicas(threads);
  for (SharedMove::Side* side : {&move.write, &move.read}) {
    side->thread = joined(std::move(side->thread));
    // Other accesses differ by a constant, which only permutes the banks.
    std::vector<int64_t> offsets;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool wanted = side == &move.read || (lane & copies) == 0;
      offsets.push_back(wanted ? move.offset(*side, 0, lane, 0) * bytes : -1);
    }
    const auto count = static_cast<int>(side->at.size());
    side->passes = count * shared_passes(offsets, side->together * bytes);
    side->least = count * least_passes(offsets, side->together * bytes);
  }
  return move;
}

int64_t cost_of_accesses(const SharedMove& move) {
  // Every access occupies a queue slot, however small it is.
  const auto of = [](const SharedMove::Side& side) {
    return 2 * int64_t{side.passes} + static_cast<int64_t>(side.at.size());
  };
  return of(move.write) + of(move.read);
}

}  // namespace

int64_t SharedMove::folded(int64_t offset) const {
  int64_t to = offset;
  for (const Fold& fold : folds) to ^= (offset >> fold.from & ((1 << fold.bits) - 1)) << fold.to;
  return to;
}
int64_t SharedMove::exchanged() const {
  int64_t bits = 0;
  for (const Fold& fold : folds) bits |= ((int64_t{1} << fold.bits) - 1) << fold.to;
  return bits;
}

int64_t SharedMove::offset(const Side& side, int block, int thread, int i) const {
  int64_t at = side.at[static_cast<size_t>(i)];
  for (const Mode& mode : side.thread) {
    const int index = mode.level == Level::lane   ? thread % lanes
                      : mode.level == Level::warp ? thread / lanes
                                                  : block;
    at += index / mode.stride % mode.extent * mode.weight;
  }
  return folded(at);
}

std::optional<SharedMove> shared_move(const Layout& from, const Weights& from_weights, const Layout& to,
                                      const Weights& to_weights, int element_bytes, int threads) {
  const auto modes = index_modes(from, from_weights, to, to_weights);
  if (!modes) return std::nullopt;
  const Order order(*modes, element_bytes);
  std::optional<SharedMove> best;
  for (int many = log2_of(most_bytes / element_bytes); many >= 0; --many)
    for (const End end : {&IndexMode::from, &IndexMode::to}) {
      SharedMove move = order.ordered(end, many, from, to, threads);
      if (!best || cost_of_accesses(move) < cost_of_accesses(*best)) best = std::move(move);
    }
  return best;
}

}  // namespace tile::cuda
