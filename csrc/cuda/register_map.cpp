// Places of threads and registers compared.
#include "cuda/register_map.h"

#include <unordered_map>

#include "support/text.h"

namespace tile::cuda {
namespace {

int64_t thread_place(const Layout& layout, const Weights& weights, int thread) {
  int64_t place = 0;
  for (int axis = 0; axis < layout.rank(); ++axis)
    place += layout.of_thread(axis, thread) * weights[static_cast<size_t>(axis)];
  return place;
}
int64_t register_place(const Layout& layout, const Weights& weights, int index) {
  int64_t place = 0;
  for (int axis = 0; axis < layout.rank(); ++axis)
    place += layout.of_register(axis, index) * weights[static_cast<size_t>(axis)];
  return place;
}
bool holds(const Layout& layout, int thread, int index) {
  for (int axis = 0; axis < layout.rank(); ++axis)
    if (layout.of_thread(axis, thread) + layout.of_register(axis, index) >=
        layout.shape()[static_cast<size_t>(axis)])
      return false;
  return true;
}
// No thread has an element there.
bool is_padding(const Layout& layout, int index) {
  for (int axis = 0; axis < layout.rank(); ++axis)
    if (layout.of_register(axis, index) >= layout.shape()[static_cast<size_t>(axis)]) return true;
  return false;
}

}  // namespace

Weights row_major(const Shape& shape) {
  Weights weights(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) weights[i - 1] = weights[i] * shape[i];
  return weights;
}

std::optional<std::vector<int>> register_map(const Layout& from, const Weights& from_weights,
                                             const Layout& to, const Weights& to_weights, int threads) {
  for (int thread = 0; thread < threads; ++thread)
    if (thread_place(from, from_weights, thread) != thread_place(to, to_weights, thread)) return std::nullopt;
  std::unordered_map<int64_t, int> at;
  for (int r = from.registers(); r-- > 0;) at[register_place(from, from_weights, r)] = r;
  std::vector<int> map(static_cast<size_t>(to.registers()), 0);
  for (int r = 0; r < to.registers(); ++r) {
    const auto found = at.find(register_place(to, to_weights, r));
    if (found != at.end())
      map[static_cast<size_t>(r)] = found->second;
    else if (!is_padding(to, r))
      return std::nullopt;
  }
  // The place of padding may be that of an element elsewhere.
  if (from.padded() || to.padded())
    for (int thread = 0; thread < threads; ++thread)
      for (int r = 0; r < to.registers(); ++r)
        if (holds(to, thread, r) && !holds(from, thread, map[static_cast<size_t>(r)])) return std::nullopt;
  return map;
}

std::string map_text(const std::vector<int>& map, const Layout& over) {
  std::vector<std::pair<const Digit*, int>> terms;
  for (const Digit& digit : over.digits())
    if (digit.level == Level::reg)
      terms.emplace_back(&digit, map[static_cast<size_t>(digit.stride)] - map[0]);
  bool linear = true;
  for (size_t r = 0; r < map.size(); ++r) {
    int sum = map[0];
    for (const auto& [digit, weight] : terms)
      sum += static_cast<int>(r) / digit->stride % digit->extent * weight;
    linear &= sum == map[r];
  }
  if (!linear) return str("constexpr int to[] = {", join(map), "}; return to[r];");
  std::string text;
  for (const auto& [digit, weight] : terms) {
    if (weight == 0) continue;
    if (!text.empty()) text += " + ";
    text += "r";
    if (digit->stride > 1) text += str(" / ", digit->stride);
    if (digit->stride * digit->extent < static_cast<int>(map.size())) text += str(" % ", digit->extent);
    if (weight != 1) text += str(" * ", weight);
  }
  if (map[0] || text.empty()) text += str(text.empty() ? "" : " + ", map[0]);
  return "return " + text + ";";
}

}  // namespace tile::cuda
