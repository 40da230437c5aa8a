// Compares the row-major indices that threads and registers hold.
#include "cuda/register_map.h"

#include <unordered_map>

#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr int most_groups = 3;

// Returns the part of the linear index that comes from the number of a register, thread, group or block.
int64_t index_of(const Layout& layout, const Weights& weights, int64_t (Layout::*part)(int, int) const,
                 int number) {
  int64_t linear = 0;
  for (int axis = 0; axis < layout.rank(); ++axis)
    linear += (layout.*part)(axis, number) * weights[static_cast<size_t>(axis)];
  return linear;
}
// Returns true if the register is padding in every thread.
bool is_padding(const Layout& layout, int index) {
  for (int axis = 0; axis < layout.rank(); ++axis)
    if (layout.of_register(axis, index) >= layout.shape()[static_cast<size_t>(axis)]) return true;
  return false;
}

// A map as a sum of modes, and whether it is one.
struct Terms {
  std::vector<Mode> modes;
  bool sum_up_to(const std::vector<int>& map) const {
    for (size_t r = 0; r < map.size(); ++r) {
      int64_t sum = map[0];
      for (const Mode& mode : modes) sum += static_cast<int>(r) / mode.stride % mode.extent * mode.weight;
      if (sum != map[r]) return false;
    }
    return true;
  }
};
// Gives the layout's register modes the map's weights.
Terms whole_modes(const std::vector<int>& map, const Layout& over) {
  Terms terms;
  for (Mode mode : over.modes()) {
    if (mode.level != Level::reg) continue;
    mode.weight = map[static_cast<size_t>(mode.stride)] - map[0];
    terms.modes.push_back(mode);
  }
  return terms;
}
// The same for the prime factors of these modes. Those that continue each other are joined.
Terms factors(const std::vector<int>& map, const Layout& over) {
  Terms terms;
  for (Mode mode : over.modes()) {
    if (mode.level != Level::reg) continue;
    for (int factor = 2, left = mode.extent; left > 1; left % factor ? ++factor : left /= factor) {
      if (left % factor) continue;
      mode.extent = factor;
      mode.weight = map[static_cast<size_t>(mode.stride)] - map[0];
      Mode* last = terms.modes.empty() ? nullptr : &terms.modes.back();
      if (last && last->stride * last->extent == mode.stride && last->weight * last->extent == mode.weight)
        last->extent *= factor;
      else
        terms.modes.push_back(mode);
      mode.stride *= factor;
    }
  }
  return terms;
}

}  // namespace

bool holds(const Layout& layout, int block, int thread, int index) {
  for (int axis = 0; axis < layout.rank(); ++axis)
    if (layout.of_block(axis, block) + layout.of_thread(axis, thread) + layout.of_register(axis, index) >=
        layout.shape()[static_cast<size_t>(axis)])
      return false;
  return true;
}
int64_t linear_index(const Layout& layout, const Weights& weights, int block, int thread, int index) {
  return index_of(layout, weights, &Layout::of_block, block) +
         index_of(layout, weights, &Layout::of_thread, thread) +
         index_of(layout, weights, &Layout::of_register, index);
}

std::optional<std::vector<int>> register_map(const Layout& from, const Weights& from_weights,
                                             const Layout& to, const Weights& to_weights, int threads,
                                             int blocks) {
  for (int block = 0; block < blocks; ++block)
    if (index_of(from, from_weights, &Layout::of_block, block) !=
        index_of(to, to_weights, &Layout::of_block, block))
      return std::nullopt;
  for (int group = 0; group < most_groups; ++group)
    if (index_of(from, from_weights, &Layout::of_group, group) !=
        index_of(to, to_weights, &Layout::of_group, group))
      return std::nullopt;
  for (int thread = 0; thread < threads; ++thread)
    if (index_of(from, from_weights, &Layout::of_thread, thread) !=
        index_of(to, to_weights, &Layout::of_thread, thread))
      return std::nullopt;
  std::unordered_map<int64_t, int> at;
  for (int r = from.registers(); r-- > 0;) at[index_of(from, from_weights, &Layout::of_register, r)] = r;
  std::vector<int> map(static_cast<size_t>(to.registers()), 0);
  for (int r = 0; r < to.registers(); ++r) {
    const auto found = at.find(index_of(to, to_weights, &Layout::of_register, r));
    if (found != at.end())
      map[static_cast<size_t>(r)] = found->second;
    else if (!is_padding(to, r))
      return std::nullopt;
  }
  // Padding may have the index of an element elsewhere.
  if (from.padded() || to.padded())
    for (int block = 0; block < blocks; ++block)
      for (int thread = 0; thread < threads; ++thread)
        for (int r = 0; r < to.registers(); ++r)
          if (holds(to, block, thread, r) && !holds(from, block, thread, map[static_cast<size_t>(r)]))
            return std::nullopt;
  return map;
}

std::string weights_text(const Weights& weights) { return str("Weights<", join(weights), ">"); }

std::string map_text(const std::vector<int>& map, const Layout& over) {
  const auto count = static_cast<int>(map.size());
  Terms terms = whole_modes(map, over);
  if (!terms.sum_up_to(map)) terms = factors(map, over);
  if (!terms.sum_up_to(map)) return str("constexpr int to[] = {", join(map), "}; return to[r];");
  std::vector<std::string> texts;
  for (const Mode& mode : terms.modes)
    if (mode.weight) texts.push_back(mode_text(mode, "r", count));
  if (map[0] || texts.empty()) texts.push_back(str(map[0]));
  return str("return ", join(texts, " + "), ";");
}

}  // namespace tile::cuda
