// Digits, what shape operations do to them, and how blocked layouts deal out lanes and warps.
#include "cuda/layout.h"

#include <algorithm>
#include <bit>

#include "support/error.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr int lanes = 32;

int64_t read(const Digit& digit, int index) { return index / digit.stride % digit.extent * digit.weight; }

}  // namespace

Layout::Layout(Shape shape, std::vector<Digit> digits) : shape_(std::move(shape)) {
  std::erase_if(digits, [](const Digit& digit) { return digit.extent == 1; });
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) {
    return a.level != b.level ? a.level < b.level : a.stride < b.stride;
  });
  int registers = 1;
  for (Digit& digit : digits) {
    if (digit.level == Level::reg) {
      digit.stride = registers;
      registers *= digit.extent;
    }
    // Neighbours that count on become one, so that equal maps are equal digits.
    if (!digits_.empty()) {
      Digit& last = digits_.back();
      if (last.level == digit.level && last.axis == digit.axis && last.stride * last.extent == digit.stride &&
          last.weight * last.extent == digit.weight) {
        last.extent *= digit.extent;
        continue;
      }
    }
    digits_.push_back(digit);
  }
}

int Layout::registers() const {
  int count = 1;
  for (const Digit& digit : digits_)
    if (digit.level == Level::reg) count *= digit.extent;
  return count;
}

int64_t Layout::span(int axis) const {
  int64_t last = 0;
  for (const Digit& digit : digits_)
    if (digit.axis == axis) last += (digit.extent - 1) * digit.weight;
  return last + 1;
}

bool Layout::padded() const {
  for (int axis = 0; axis < rank(); ++axis)
    if (span(axis) != shape_[static_cast<size_t>(axis)]) return true;
  return false;
}

int Layout::vector_along(int axis) const {
  if (digits_.empty()) return 1;
  const Digit& first = digits_.front();
  return first.level == Level::reg && first.axis == axis && first.weight == 1 ? first.extent : 1;
}

int64_t Layout::of_register(int axis, int index) const {
  int64_t coordinate = 0;
  for (const Digit& digit : digits_)
    if (digit.level == Level::reg && digit.axis == axis) coordinate += read(digit, index);
  return coordinate;
}

int64_t Layout::of_thread(int axis, int thread) const {
  int64_t coordinate = 0;
  for (const Digit& digit : digits_)
    if (digit.axis == axis && (digit.level == Level::lane || digit.level == Level::warp))
      coordinate += read(digit, digit.level == Level::lane ? thread % lanes : thread / lanes);
  return coordinate;
}

int64_t Layout::of_block(int axis, int block) const {
  int64_t coordinate = 0;
  for (const Digit& digit : digits_)
    if (digit.axis == axis && digit.level == Level::cta) coordinate += read(digit, block);
  return coordinate;
}

int Layout::block_replicas(int blocks) const {
  int used = 0;
  for (const Digit& digit : digits_)
    if (digit.level == Level::cta) used |= (digit.extent - 1) * digit.stride;
  return (blocks - 1) & ~used;
}
bool Layout::across_blocks() const {
  return std::any_of(digits_.begin(), digits_.end(),
                     [](const Digit& digit) { return digit.level == Level::cta; });
}

int Layout::replicas(int threads) const {
  int used = 0;
  for (const Digit& digit : digits_) {
    const int unit = digit.level == Level::lane ? 1 : lanes;
    if (digit.level == Level::lane || digit.level == Level::warp)
      used |= (digit.extent - 1) * digit.stride * unit;
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
  std::vector<Digit> digits;
  for (Digit digit : digits_) {
    digit.axis = number[static_cast<size_t>(digit.axis)];
    if (digit.axis >= 0) digits.push_back(digit);
  }
  return Layout(std::move(shape), std::move(digits));
}

Layout Layout::collapsed(const Shape& shape) const {
  std::vector<Digit> digits;
  for (const Digit& digit : digits_)
    if (shape[static_cast<size_t>(digit.axis)] != 1) digits.push_back(digit);
  return Layout(shape, std::move(digits));
}

Layout Layout::permuted(const std::vector<int64_t>& axes) const {
  Shape shape;
  std::vector<int> to(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    shape.push_back(shape_[static_cast<size_t>(axes[i])]);
    to[static_cast<size_t>(axes[i])] = static_cast<int>(i);
  }
  std::vector<Digit> digits = digits_;
  for (Digit& digit : digits) digit.axis = to[static_cast<size_t>(digit.axis)];
  return Layout(std::move(shape), std::move(digits));
}

Layout Layout::in_order(int axis, int64_t sector) const {
  std::vector<Digit> digits = digits_, along;
  std::erase_if(digits, [&](const Digit& digit) { return digit.axis == axis; });
  int64_t others = 1;
  for (const Digit& digit : digits)
    if (digit.level == Level::reg && digit.stride == 1) others = digit.extent;
  bool lanes_first = false;
  for (const Digit& digit : digits_) {
    if (digit.axis != axis) continue;
    along.push_back(digit);
    lanes_first |= digit.level == Level::lane && others * digit.stride < sector;
  }
  const auto rank = [&](const Digit& digit) {
    if (digit.level == Level::reg) return lanes_first && digit.stride != 1 ? 2 : 0;
    return digit.level == Level::lane ? 1 : digit.level == Level::warp ? 3 : 4;
  };
  std::stable_sort(along.begin(), along.end(), [&](const Digit& a, const Digit& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.weight < b.weight;
  });
  int64_t weight = 1;
  for (Digit& digit : along) {
    digit.weight = weight;
    weight *= digit.extent;
    digits.push_back(digit);
  }
  return Layout(shape_, std::move(digits));
}

std::optional<Layout> Layout::reshaped(const Shape& shape) const {
  if (padded()) return std::nullopt;
  const Weights from = row_major(shape_), to = row_major(shape);
  std::vector<Digit> digits;
  for (Digit digit : digits_) {
    int64_t linear = digit.weight * from[static_cast<size_t>(digit.axis)];
    // A digit that crosses the edge of an axis is cut there; the rest counts on along the axis before.
    for (size_t axis = shape.size(); axis-- > 0 && digit.extent > 1;) {
      const int64_t end = to[axis] * shape[axis];
      if (linear >= end) continue;
      if (linear % to[axis] != 0) return std::nullopt;
      const bool whole = linear * digit.extent <= end;
      const auto part = whole ? digit.extent : static_cast<int>(end / linear);
      if (!whole && (end % linear != 0 || digit.extent % part != 0)) return std::nullopt;
      digits.push_back({digit.level, digit.stride, part, static_cast<int>(axis), linear / to[axis]});
      digit.stride *= part;
      digit.extent /= part;
      linear *= part;
    }
    if (digit.extent > 1) return std::nullopt;
  }
  return Layout(shape, std::move(digits));
}

namespace {

// Deals the lanes and warps of a block, and the blocks of a cluster, out along the axes.
class Dealer {
 public:
  explicit Dealer(const Shape& shape) : left(shape), weight(shape.size(), 1) {}

  void registers(size_t axis, int count) {
    if (count > 1)
      digits.push_back({Level::reg, next_register++, count, static_cast<int>(axis), weight[axis]});
    advance(axis, count);
  }
  // As many of `count` as the axis can use; returns how many are left. A fifth of the threads may hold
  // padding, or `none`; on the last axis any, since nothing else is left for them.
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
      digits.push_back({level, stride, static_cast<int>(best), static_cast<int>(axis), weight[axis]});
    advance(axis, best);
    return static_cast<int>(count / best);
  }
  // Blocks get neighbouring parts, so that a thread meets few rows: only what is odd is left to registers
  // outside of them.
  int blocks(size_t axis, int count, int stride, Padding padding) {
    if (left[axis] % count == 0) registers(axis, static_cast<int>(lowest_bit(left[axis] / count)));
    return threads(axis, Level::cta, count, stride, padding);
  }
  void rest() {
    for (size_t axis = left.size(); axis-- > 0;) registers(axis, static_cast<int>(left[axis]));
  }

  std::vector<Digit> digits;
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
  // What a cluster holds is large: no register of it is to be padding where that can be helped.
  auto deal = [&](Level level, int count) {
    int left = count;
    for (size_t i = 0; i < order.size(); ++i)
      left = dealer.threads(order[i], level, left, count / left,
                            i + 1 == order.size() ? Padding::any
                            : blocks > 1          ? Padding::none
                                                  : Padding::fifth);
  };
  deal(Level::lane, lanes);
  // Warps: the other axes first, the last of them nearest; what is left goes along `axis`.
  std::rotate(order.begin(), order.begin() + 1, order.end());
  deal(Level::warp, warps);
  int left = blocks;
  // An odd rest of a row is a thread's, beside its vector: so that rows may be cut into groups of channels.
  if (blocks > 1 && dealer.left[along] % 2 == 1 &&
      element_count(dealer.left) / dealer.left[along] % blocks == 0)
    dealer.registers(along, static_cast<int>(dealer.left[along]));
  for (const Padding padding : {Padding::none, Padding::any})
    for (size_t i = 0; i < shape.size() && left > 1; ++i)
      left = dealer.blocks(i, left, blocks / left, padding);
  dealer.rest();
  return Layout(shape, std::move(dealer.digits));
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

std::string digit_text(const Digit& digit, std::string_view index, int count) {
  return str(index, digit.stride > 1 ? str(" / ", digit.stride) : "",
             digit.stride * digit.extent < count ? str(" % ", digit.extent) : "",
             digit.weight != 1 ? str(" * ", digit.weight) : "");
}

std::string describe(const Layout& layout) {
  static constexpr const char* names[] = {"registers", "lanes", "warps", "blocks"};
  return join(layout.digits(), ", ", [](const Digit& digit) {
    return str(digit.extent, ' ', names[static_cast<int>(digit.level)], " along axis ", digit.axis,
               digit.weight > 1 ? str(" (", digit.weight, " apart)") : "");
  });
}

}  // namespace tile::cuda
