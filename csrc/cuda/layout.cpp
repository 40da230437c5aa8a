// Implements modes, shape operations on them, and the distribution of blocked layouts over lanes and warps.
#include "cuda/layout.h"

#include <algorithm>
#include <bit>

#include "support/error.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr int lanes = 32;

int64_t read(const Mode& mode, int index) { return index / mode.stride % mode.extent * mode.weight; }

}  // namespace

Layout::Layout(Shape shape, std::vector<Mode> modes) : shape_(std::move(shape)) {
  std::erase_if(modes, [](const Mode& mode) { return mode.extent == 1; });
  std::stable_sort(modes.begin(), modes.end(), [](const Mode& a, const Mode& b) {
    return a.level != b.level ? a.level < b.level : a.stride < b.stride;
  });
  int registers = 1;
  for (Mode& mode : modes) {
    if (mode.level == Level::reg) {
      mode.stride = registers;
      registers *= mode.extent;
    }
    // Contiguous modes are merged, so that equal maps have equal modes.
    if (!modes_.empty()) {
      Mode& last = modes_.back();
      if (last.level == mode.level && last.axis == mode.axis && last.stride * last.extent == mode.stride &&
          last.weight * last.extent == mode.weight) {
        last.extent *= mode.extent;
        continue;
      }
    }
    modes_.push_back(mode);
  }
}

int Layout::registers() const {
  int count = 1;
  for (const Mode& mode : modes_)
    if (mode.level == Level::reg) count *= mode.extent;
  return count;
}

int64_t Layout::span(int axis) const {
  int64_t last = 0;
  for (const Mode& mode : modes_)
    if (mode.axis == axis) last += (mode.extent - 1) * mode.weight;
  return last + 1;
}

bool Layout::padded() const {
  for (int axis = 0; axis < rank(); ++axis)
    if (span(axis) != shape_[static_cast<size_t>(axis)]) return true;
  return false;
}

int Layout::vector_along(int axis) const {
  if (modes_.empty()) return 1;
  const Mode& first = modes_.front();
  return first.level == Level::reg && first.axis == axis && first.weight == 1 ? first.extent : 1;
}

int64_t Layout::of_level(Level level, int axis, int index) const {
  int64_t coordinate = 0;
  for (const Mode& mode : modes_)
    if (mode.axis == axis && mode.level == level) coordinate += read(mode, index);
  return coordinate;
}
int64_t Layout::of_register(int axis, int index) const { return of_level(Level::reg, axis, index); }
int64_t Layout::of_thread(int axis, int thread) const {
  return of_level(Level::lane, axis, thread % lanes) + of_level(Level::warp, axis, thread / lanes);
}
int64_t Layout::of_group(int axis, int group) const { return of_level(Level::group, axis, group); }
int64_t Layout::of_block(int axis, int block) const { return of_level(Level::cta, axis, block); }

int Layout::block_replicas(int blocks) const {
  int used = 0;
  for (const Mode& mode : modes_)
    if (mode.level == Level::cta) used |= (mode.extent - 1) * mode.stride;
  return (blocks - 1) & ~used;
}
bool Layout::across(Level level) const {
  return std::any_of(modes_.begin(), modes_.end(), [&](const Mode& mode) { return mode.level == level; });
}
bool Layout::across_groups() const { return across(Level::group); }
bool Layout::across_blocks() const { return across(Level::cta); }

int Layout::replicas(int threads) const {
  int used = 0;
  for (const Mode& mode : modes_) {
    const int unit = mode.level == Level::lane ? 1 : lanes;
    if (mode.level == Level::lane || mode.level == Level::warp)
      used |= (mode.extent - 1) * mode.stride * unit;
  }
  return (threads - 1) & ~used;
}

Layout Layout::without(const std::vector<int64_t>& axes) const {
  std::vector<int> number(shape_.size(), -1);
  Shape shape;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
    number[i] = static_cast<int>(shape.size());
    shape.push_back(shape_[i]);
  }
  std::vector<Mode> modes;
  for (Mode mode : modes_) {
    mode.axis = number[static_cast<size_t>(mode.axis)];
    if (mode.axis >= 0) modes.push_back(mode);
  }
  return Layout(std::move(shape), std::move(modes));
}

Layout Layout::collapsed(const Shape& shape) const {
  std::vector<Mode> modes;
  for (const Mode& mode : modes_)
    if (shape[static_cast<size_t>(mode.axis)] != 1) modes.push_back(mode);
  return Layout(shape, std::move(modes));
}

Layout Layout::permuted(const std::vector<int64_t>& axes) const {
  Shape shape;
  std::vector<int> to(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    shape.push_back(shape_[static_cast<size_t>(axes[i])]);
    to[static_cast<size_t>(axes[i])] = static_cast<int>(i);
  }
  std::vector<Mode> modes = modes_;
  for (Mode& mode : modes) mode.axis = to[static_cast<size_t>(mode.axis)];
  return Layout(std::move(shape), std::move(modes));
}

Layout Layout::in_order(int axis, int64_t sector) const {
  std::vector<Mode> modes = modes_, along;
  std::erase_if(modes, [&](const Mode& mode) { return mode.axis == axis; });
  int64_t others = 1;
  for (const Mode& mode : modes)
    if (mode.level == Level::reg && mode.stride == 1) others = mode.extent;
  bool lanes_first = false;
  for (const Mode& mode : modes_) {
    if (mode.axis != axis) continue;
    along.push_back(mode);
    lanes_first |= mode.level == Level::lane && others * mode.stride < sector;
  }
  const auto rank = [&](const Mode& mode) {
    if (mode.level == Level::reg) return lanes_first && mode.stride != 1 ? 2 : 0;
    return mode.level == Level::lane ? 1 : mode.level == Level::warp ? 3 : 4;  // groups and blocks last
  };
  std::stable_sort(along.begin(), along.end(), [&](const Mode& a, const Mode& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.weight < b.weight;
  });
  int64_t weight = 1;
  for (Mode& mode : along) {
    mode.weight = weight;
    weight *= mode.extent;
    modes.push_back(mode);
  }
  return Layout(shape_, std::move(modes));
}

std::optional<Layout> Layout::reshaped(const Shape& shape) const {
  if (padded()) return std::nullopt;
  const Weights from = row_major(shape_), to = row_major(shape);
  std::vector<Mode> modes;
  for (Mode mode : modes_) {
    int64_t linear = mode.weight * from[static_cast<size_t>(mode.axis)];
    // A mode that crosses the edge of an axis is split there; the rest continues along the previous axis.
    for (size_t axis = shape.size(); axis-- > 0 && mode.extent > 1;) {
      const int64_t end = to[axis] * shape[axis];
      if (linear >= end) continue;
      if (linear % to[axis] != 0) return std::nullopt;
      const bool fits = linear * mode.extent <= end;
      const auto part = fits ? mode.extent : static_cast<int>(end / linear);
      if (!fits && (end % linear != 0 || mode.extent % part != 0)) return std::nullopt;
      modes.push_back({mode.level, mode.stride, part, static_cast<int>(axis), linear / to[axis]});
      mode.stride *= part;
      mode.extent /= part;
      linear *= part;
    }
    if (mode.extent > 1) return std::nullopt;
  }
  return Layout(shape, std::move(modes));
}

namespace {

// Distributes the lanes and warps of a block, and the blocks of a cluster, along the axes.
class Dealer {
 public:
  explicit Dealer(const Shape& shape) : left(shape), weight(shape.size(), 1) {}

  void registers(size_t axis, int count) {
    if (count > 1)
      modes.push_back({Level::reg, next_register++, count, static_cast<int>(axis), weight[axis]});
    advance(axis, count);
  }
  // Assigns as many of `count` to the axis as it can use and returns the factor that is left. `padding`
  // limits how many threads may hold padding: none, a fifth, or any on the last axis, where threads have no
  // other use.
  enum class Padding { none, fifth, any };
  int threads(size_t axis, Level level, int count, int stride, Padding padding) {
    const int64_t most = std::min<int64_t>(count, std::bit_ceil(static_cast<uint64_t>(left[axis])));
    int64_t best = 1;
    for (int64_t n = 1; n <= most; n *= 2) {
      const int64_t dealt = n * ceil_div(left[axis], n);
      if (padding == Padding::any || dealt == left[axis] ||
          (padding == Padding::fifth && dealt * 4 <= left[axis] * 5))
        best = n;
    }
    if (best > 1)
      modes.push_back({level, stride, static_cast<int>(best), static_cast<int>(axis), weight[axis]});
    advance(axis, best);
    return static_cast<int>(count / best);
  }
  // Blocks get contiguous parts, so that a thread has few rows. An even part is assigned to registers within
  // a block; only an odd factor is left to registers outside of it.
  int blocks(size_t axis, int count, int stride, Padding padding) {
    if (left[axis] % count == 0) registers(axis, static_cast<int>(lowest_bit(left[axis] / count)));
    return threads(axis, Level::cta, count, stride, padding);
  }
  void rest() {
    for (size_t axis = left.size(); axis-- > 0;) registers(axis, static_cast<int>(left[axis]));
  }

  std::vector<Mode> modes;
  Shape left, weight;

 private:
  static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
  static int64_t lowest_bit(int64_t x) { return x & -x; }
  void advance(size_t axis, int64_t count) {
    left[axis] = ceil_div(left[axis], count);
    weight[axis] *= count;
  }
  int next_register = 1;
};

}  // namespace

Layout blocked(const Shape& shape, int axis, int vector, int warps, int blocks) {
  if (shape.empty()) return Layout({}, {});
  using Padding = Dealer::Padding;
  Dealer dealer(shape);
  const auto along = static_cast<size_t>(axis);
  dealer.registers(along, vector);
  std::vector<size_t> order{along};
  for (size_t i = shape.size(); i-- > 0;)
    if (i != along) order.push_back(i);
  // A cluster's tile is large: avoid padding in its registers.
  auto deal = [&](Level level, int count) {
    int left = count;
    for (size_t i = 0; i < order.size(); ++i)
      left = dealer.threads(order[i], level, left, count / left,
                            i + 1 == order.size() ? Padding::any
                            : blocks > 1          ? Padding::none
                                                  : Padding::fifth);
  };
  deal(Level::lane, lanes);
  // Warps are assigned to the other axes first, innermost first, and the rest to `axis`.
  std::rotate(order.begin(), order.begin() + 1, order.end());
  deal(Level::warp, warps);
  int left = blocks;
  // An odd rest of a row goes to the registers next to the vector, so that rows can be split into groups of
  // channels.
  if (blocks > 1 && dealer.left[along] % 2 == 1 &&
      element_count(dealer.left) / dealer.left[along] % blocks == 0)
    dealer.registers(along, static_cast<int>(dealer.left[along]));
  for (const Padding padding : {Padding::none, Padding::any})
    for (size_t i = 0; i < shape.size() && left > 1; ++i)
      left = dealer.blocks(i, left, blocks / left, padding);
  dealer.rest();
  return Layout(shape, std::move(dealer.modes));
}

bool repeats_scalar(const Value* value) {
  const Op* made = value->definition;
  return made && made->is("broadcast") && made->operands[0]->type.is_scalar();
}

Weights row_major(const Shape& shape) {
  Weights weights(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) weights[i - 1] = weights[i] * shape[i];
  return weights;
}

std::string mode_text(const Mode& mode, std::string_view index, int count) {
  return str(index, mode.stride > 1 ? str(" / ", mode.stride) : "",
             mode.stride * mode.extent < count ? str(" % ", mode.extent) : "",
             mode.weight != 1 ? str(" * ", mode.weight) : "");
}

std::string describe(const Layout& layout) {
  static constexpr const char* names[] = {"registers", "lanes", "warps", "groups", "blocks"};
  return join(layout.modes(), ", ", [](const Mode& mode) {
    return str(mode.extent, ' ', names[static_cast<int>(mode.level)], " along axis ", mode.axis,
               mode.weight > 1 ? str(" (", mode.weight, " apart)") : "");
  });
}

}  // namespace tile::cuda
