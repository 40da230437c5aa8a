// Bounds the iterations of a loop from the sizes of a launch, by intervals of its index arithmetic, which
// hold for all elements of a tile.
#include <algorithm>
#include <limits>
#include <optional>

#include "derive/reverse.h"
#include "ir/walk.h"

namespace tile {
namespace {

// The low bound of a minimum of which one number is unknown.
constexpr int64_t no_bound = std::numeric_limits<int64_t>::min();
constexpr int64_t most_counted = std::numeric_limits<int32_t>::max();

struct Interval {
  int64_t low, high;
  bool open() const { return low == no_bound; }
};

class Intervals {
 public:
  Intervals(const Function& kernel, const Op& loop, const LaunchSizes& sizes)
      : kernel_(kernel), loop_(loop), sizes_(sizes) {}

  std::optional<int64_t> count() const {
    try {
      const Interval low = of(loop_.operands[0]), high = of(loop_.operands[1]), step = of(loop_.operands[2]);
      const int64_t by = std::max<int64_t>(1, step.low);
      const int64_t count = plus(minus(high, low).high, by - 1) / by;
      if (count > most_counted) return std::nullopt;
      return std::max<int64_t>(0, count);
    } catch (const Unknown&) {
      return std::nullopt;
    }
  }

 private:
  struct Unknown {};  // nothing is known of a number before the kernel runs
  size_t parameter(const Value* value) const {
    const auto& all = kernel_.body().arguments;
    return static_cast<size_t>(std::find(all.begin(), all.end(), value) - all.begin());
  }

  Interval of(const Value* value) const {
    const Op* op = value->definition;
    if (!op) {
      if (!value->owner->parent) {
        const int64_t number = sizes_.scalar(parameter(value));
        return {number, number};
      }
      const Op& around = *value->owner->parent;
      if (!around.is("for") || around.region().arguments[0] != value) throw Unknown();
      const Interval low = of(around.operands[0]), high = of(around.operands[1]);
      return {low.low, std::max(low.low, minus(high, {1, 1}).high)};
    }
    if (const auto constant = constant_of(value)) return {constant->integer, constant->integer};
    if (op->is("bid")) return {0, std::max<int64_t>(0, sizes_.blocks[op->integer("axis")] - 1)};
    if (op->is("num_blocks")) {
      const int64_t blocks = sizes_.blocks[op->integer("axis")];
      return {blocks, blocks};
    }
    if (op->is("dim")) return extent(op->operands[0], op->integer("axis"));
    if (!op->traits().pure() || (!is_integer(value->type.dtype) && value->type.dtype != DType::boolean))
      throw Unknown();
    for (const char* name : {"reshape", "broadcast", "permute", "extract", "reduce_max", "reduce_min"})
      if (op->is(name)) return of(op->operands[0]);
    if (op->is("arange")) return {0, op->integer("size") - 1};
    if (op->is("where")) return joined(of(op->operands[1]), of(op->operands[2]));
    if (op->is("astype") && is_integer(op->type(0).dtype)) return of(op->operands[0]);
    if (op->operands.size() != 2) throw Unknown();
    if (op->is("minimum")) return least(op->operands[0], op->operands[1]);
    const Interval x = of(op->operands[0]), y = of(op->operands[1]);
    if (op->is("add")) return {x.open() || y.open() ? no_bound : plus(x.low, y.low), plus(x.high, y.high)};
    if (op->is("sub")) return minus(x, y);
    if (op->is("maximum")) return {std::max(x.low, y.low), std::max(x.high, y.high)};
    if (op->is("mul")) return y.open() ? corners(y, x, times) : corners(x, y, times);
    if (y.low < 1) throw Unknown();
    if (op->is("floordiv")) return corners(x, y, [](int64_t a, int64_t b) { return a / b - (a % b < 0); });
    if (op->is("cdiv")) return corners(x, y, [](int64_t a, int64_t b) { return a / b + (a % b > 0); });
    if (op->is("mod")) return {0, y.high - 1};
    throw Unknown();
  }

  // One of two numbers bounds the lesser one, whatever the other is.
  Interval least(const Value* x, const Value* y) const {
    const auto known = [&](const Value* value) -> Interval {
      try {
        return of(value);
      } catch (const Unknown&) {
        return {no_bound, std::numeric_limits<int64_t>::max()};
      }
    };
    const Interval a = known(x), b = known(y);
    if (std::min(a.high, b.high) >= most_counted) throw Unknown();
    return {std::min(a.low, b.low), std::min(a.high, b.high)};
  }

  static Interval joined(Interval x, Interval y) {
    return {std::min(x.low, y.low), std::max(x.high, y.high)};
  }
  // Numbers that leave 64 bits bound nothing.
  static int64_t plus(int64_t x, int64_t y) {
    int64_t sum;
    if (__builtin_add_overflow(x, y, &sum)) throw Unknown();
    return sum;
  }
  static int64_t times(int64_t x, int64_t y) {
    int64_t product;
    if (__builtin_mul_overflow(x, y, &product)) throw Unknown();
    return product;
  }
  static Interval minus(Interval x, Interval y) {
    int64_t low, high;
    if (y.open() || __builtin_sub_overflow(x.high, y.low, &high)) throw Unknown();
    if (x.open()) return {no_bound, high};
    if (__builtin_sub_overflow(x.low, y.high, &low)) throw Unknown();
    return {low, high};
  }
  // The interval of f, which is monotonic in each number.
  template <class F>
  static Interval corners(Interval x, Interval y, F f) {
    if (y.open() || (x.open() && y.low < 0)) throw Unknown();
    if (x.open()) return {no_bound, std::max(f(x.high, y.low), f(x.high, y.high))};
    const auto [low, high] =
        std::minmax({f(x.low, y.low), f(x.low, y.high), f(x.high, y.low), f(x.high, y.high)});
    return {low, high};
  }
  // The extent of an axis through views; a slice has at most as many elements.
  Interval extent(const Value* array, int64_t axis) const {
    const Op* view = array->definition;
    if (!view) {
      const int64_t size = sizes_.extent(parameter(array), axis);
      return {size, size};
    }
    if (view->is("index"))
      return extent(view->operands[0], axis + static_cast<int64_t>(view->operands.size()) - 1);
    if (view->is("permute_array"))
      return extent(view->operands[0], view->integers("axes")[static_cast<size_t>(axis)]);
    const int64_t whole = extent(view->operands[0], axis).high;
    if (axis != view->integer("axis")) return {0, whole};
    return {0, std::max(whole, minus(of(view->operands[2]), of(view->operands[1])).high)};
  }

  const Function& kernel_;
  const Op& loop_;
  const LaunchSizes& sizes_;
};

}  // namespace

std::optional<int64_t> most_iterations(const Function& kernel, const Op& loop, const LaunchSizes& sizes) {
  return Intervals(kernel, loop, sizes).count();
}

}  // namespace tile
