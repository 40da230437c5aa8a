// The cost model of kept values, and the extents of their arrays.
#include "derive/kept_values.h"

#include <algorithm>
#include <cmath>

#include "ir/walk.h"

namespace tile {
namespace {

// Memory of this size, or of this part of the launch's own arrays, is not worth the time in which iterations
// are computed again.
constexpr int64_t small_bytes = int64_t{1} << 22, small_part = 16;
// With few iterations, two arrays of ceil(sqrt(n)) places are hardly smaller than one of n.
constexpr int64_t few_iterations = 16;
// Without a bound, as many places as fit into this memory, within limits: p places are enough for p * p
// iterations; beyond, those between two places are computed again and again.
constexpr int64_t bytes_of_places = int64_t{1} << 24;
constexpr int64_t fewest_places = 32, most_places = 512;

// Returns the bytes of one place of all of a loop's arrays, of all blocks.
int64_t bytes_of_place(const Derived& derived, const Op* loop, const LaunchSizes& sizes) {
  int64_t bytes = 0;
  for (const DerivedScratch& each : derived.scratch) {
    if (each.loop != loop) continue;
    bytes += info(each.dtype).bytes * element_count(each.shape);
  }
  return bytes * std::max<int64_t>(1, sizes.blocks[0] * sizes.blocks[1] * sizes.blocks[2]);
}

// Returns the least s with s * s >= n, at least 1.
int64_t root_of(int64_t n) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  return std::max<int64_t>(1, root);
}

}  // namespace

std::vector<Keeping> choose_keeping(const Derived& plain, const LaunchSizes& sizes) {
  std::vector<Keeping> ways;
  walk(plain.kernel.body(), [&](const Op& op) {
    if (!op.is("for")) return;
    Keeping& way = ways.emplace_back(Keeping::all);
    const int64_t bytes = bytes_of_place(plain, &op, sizes);
    if (std::none_of(plain.scratch.begin(), plain.scratch.end(),
                     [&](const DerivedScratch& each) { return each.loop == &op; }))
      return;
    const std::optional<int64_t> count = most_iterations(plain.kernel, op, sizes);
    if (!count)
      way = Keeping::places;
    else if (*count > few_iterations && *count > (small_bytes + sizes.bytes / small_part) / bytes)
      way = Keeping::segments;
  });
  return ways;
}

int64_t places_of(const Derived& derived, const DerivedScratch& scratch, const LaunchSizes& sizes) {
  if (scratch.keeping == Keeping::places) {
    const int64_t fit = bytes_of_places / bytes_of_place(derived, scratch.loop, sizes);
    return std::clamp(fit, fewest_places, most_places);
  }
  const std::optional<int64_t> count = most_iterations(derived.kernel, *scratch.loop, sizes);
  TILE_CHECK(count, "values are kept for each iteration of a loop without a bound");
  if (scratch.keeping == Keeping::all) return *count;
  const int64_t segment = root_of(*count);
  return scratch.in_segment ? segment : std::max<int64_t>(1, (*count + segment - 1) / segment);
}

std::string keeping_text(const Derived& derived, const DerivedScratch& scratch, const LaunchSizes& sizes) {
  switch (scratch.keeping) {
    case Keeping::all:
      return "kept for each iteration";
    case Keeping::places:
      return "kept for some iterations";
    case Keeping::segments:
      break;
  }
  const int64_t count = most_iterations(derived.kernel, *scratch.loop, sizes).value();
  return str("kept every ", root_of(count), " iterations");
}

}  // namespace tile
