// Digits of both layouts side by side, from the lowest weight on.
#include "cuda/place_digits.h"

#include <algorithm>
#include <numeric>

namespace tile::cuda {
namespace {

struct Part {
  int64_t weight;
  int extent;
  IndexPlace at;
  // Takes the lowest `count` off.
  IndexPlace take(int count) {
    const IndexPlace taken = at;
    weight *= count, at.stride *= count, extent /= count;
    return taken;
  }
};

std::vector<Part> parts_of(const Layout& layout, const Weights& weights) {
  std::vector<Part> parts;
  for (const Digit& digit : layout.digits())
    if (const int64_t weight = digit.weight * weights[static_cast<size_t>(digit.axis)]; weight != 0)
      parts.push_back({weight, digit.extent, {digit.level, digit.stride}});
  return parts;
}

// The part of the least weight; null: none is left.
Part* lowest(std::vector<Part>& parts) {
  std::erase_if(parts, [](const Part& part) { return part.extent == 1; });
  const auto found = std::min_element(parts.begin(), parts.end(),
                                      [](const Part& a, const Part& b) { return a.weight < b.weight; });
  return found == parts.end() ? nullptr : &*found;
}

// Twos first, an odd rest behind them, as it is cut on both sides.
int next_factor(int extent) { return extent % 2 == 0 ? 2 : extent; }

// How much of `part` lies below the weight; 0: that cuts it otherwise than in two.
int below(const Part& part, const Part* other) {
  if (!other || other->weight >= part.weight * part.extent) return part.extent;
  const int64_t count = other->weight / part.weight;
  return other->weight % part.weight == 0 && part.extent % count == 0 ? static_cast<int>(count) : 0;
}

}  // namespace

std::optional<std::vector<PlaceDigit>> place_digits(const Layout& from, const Weights& from_weights,
                                                    const Layout& to, const Weights& to_weights) {
  std::vector<Part> theirs = parts_of(from, from_weights), ours = parts_of(to, to_weights);
  std::vector<PlaceDigit> digits;
  for (;;) {
    Part *x = lowest(theirs), *y = lowest(ours);
    if (!x && !y) return digits;
    const bool both = x && y && x->weight == y->weight;
    const bool only_from = !both && (!y || (x && x->weight < y->weight));
    Part& first = only_from || both ? *x : *y;
    int count = both ? std::gcd(x->extent, y->extent) : below(first, only_from ? y : x);
    if (count == 0 || (both && count == 1)) return std::nullopt;
    while (count > 1) {
      const int factor = next_factor(count);
      PlaceDigit digit{first.weight, factor, std::nullopt, std::nullopt};
      if (both || only_from) digit.from = x->take(factor);
      if (both || !only_from) digit.to = y->take(factor);
      digits.push_back(digit);
      count /= factor;
    }
  }
}

}  // namespace tile::cuda
