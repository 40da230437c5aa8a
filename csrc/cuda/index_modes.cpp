// Splits the modes of both layouts from the lowest weight on.
#include "cuda/index_modes.h"

#include <algorithm>
#include <numeric>

namespace tile::cuda {
namespace {

struct Part {
  int64_t weight;
  int extent;
  IndexCoordinate at;
  // Removes and returns the lowest `count` values.
  IndexCoordinate take(int count) {
    const IndexCoordinate taken = at;
    weight *= count, at.stride *= count, extent /= count;
    return taken;
  }
};

std::vector<Part> parts_of(const Layout& layout, const Weights& weights) {
  std::vector<Part> parts;
  for (const Mode& mode : layout.modes())
    if (const int64_t weight = mode.weight * weights[static_cast<size_t>(mode.axis)]; weight != 0)
      parts.push_back({weight, mode.extent, {mode.level, mode.stride}});
  return parts;
}

// Returns the part with the lowest weight, or null if none is left.
Part* lowest(std::vector<Part>& parts) {
  std::erase_if(parts, [](const Part& part) { return part.extent == 1; });
  const auto found = std::min_element(parts.begin(), parts.end(),
                                      [](const Part& a, const Part& b) { return a.weight < b.weight; });
  return found == parts.end() ? nullptr : &*found;
}

// Factors of two come first, then the odd rest, in the same order on both sides.
int next_factor(int extent) { return extent % 2 == 0 ? 2 : extent; }

// Returns how much of `part` precedes the other part's weight; 0 if that does not divide it evenly.
int below(const Part& part, const Part* other) {
  if (!other || other->weight >= part.weight * part.extent) return part.extent;
  const int64_t count = other->weight / part.weight;
  return other->weight % part.weight == 0 && part.extent % count == 0 ? static_cast<int>(count) : 0;
}

}  // namespace

std::optional<std::vector<IndexMode>> index_modes(const Layout& from, const Weights& from_weights,
                                                  const Layout& to, const Weights& to_weights) {
  std::vector<Part> theirs = parts_of(from, from_weights), ours = parts_of(to, to_weights);
  std::vector<IndexMode> modes;
  for (;;) {
    Part *x = lowest(theirs), *y = lowest(ours);
    if (!x && !y) return modes;
    const bool both = x && y && x->weight == y->weight;
    const bool only_from = !both && (!y || (x && x->weight < y->weight));
    Part& first = only_from || both ? *x : *y;
    int count = both ? std::gcd(x->extent, y->extent) : below(first, only_from ? y : x);
    if (count == 0 || (both && count == 1)) return std::nullopt;
    while (count > 1) {
      const int factor = next_factor(count);
      IndexMode mode{first.weight, factor, std::nullopt, std::nullopt};
      if (both || only_from) mode.from = x->take(factor);
      if (both || !only_from) mode.to = y->take(factor);
      modes.push_back(mode);
      count /= factor;
    }
  }
}

}  // namespace tile::cuda
