// Implements the overlap of strided arrays: searches for a bounded sum of strides that equals a distance.
#include "runtime/overlap.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tile {
namespace {

// The values step * i for i from 0 to most.
struct Term {
  int64_t step, most;
};
using Terms = std::vector<Term>;

void add(Terms& terms, int64_t step, int64_t most) {
  if (step == 0 || most <= 0) return;
  for (Term& term : terms)
    if (term.step == step) {
      term.most += most;
      return;
    }
  terms.push_back({step, most});
}

// Decides whether one number from each term can sum to the target. Few multiples of the largest step have to
// be tried, because the other terms reach no farther than their sum: one or two for the strides of a dense
// layout.
class Search {
 public:
  Search(Terms terms, int64_t target) : terms_(std::move(terms)) {
    std::sort(terms_.begin(), terms_.end(), [](Term a, Term b) { return a.step > b.step; });
    reach_.resize(terms_.size() + 1, 0);
    for (size_t i = terms_.size(); i-- > 0;) reach_[i] = reach_[i + 1] + terms_[i].step * terms_[i].most;
    found_ = at(0, target);
  }
  bool found() const { return found_; }

 private:
  bool at(size_t i, int64_t target) {
    if (target < 0 || target > reach_[i]) return false;
    if (i == terms_.size()) return true;
    if (--steps_ < 0) return true;  // irregular strides: assume that they overlap
    const auto [step, most] = terms_[i];
    const int64_t below = std::max<int64_t>(target - reach_[i + 1], 0);
    for (int64_t n = (below + step - 1) / step; n <= std::min(most, target / step); ++n)
      if (at(i + 1, target - step * n)) return true;
    return false;
  }

  Terms terms_;
  std::vector<int64_t> reach_;
  int steps_ = 10000;
  bool found_ = false;
};

// Returns the addresses of an array's first byte and of the byte after its last.
std::pair<int64_t, int64_t> range(const StridedMemory& x) {
  int64_t begin = x.address, end = x.address + x.bytes;
  for (size_t axis = 0; axis < x.sizes.size(); ++axis) {
    const int64_t distance = (x.sizes[axis] - 1) * x.strides[axis] * x.bytes;
    (distance < 0 ? begin : end) += distance;
  }
  return {begin, end};
}

// Returns true if, in some order of the axes, each stride exceeds the reach of the axes before it, as in any
// dense layout: then no two elements share memory. Returns false for arrays of more than max_array_rank axes.
bool nested(const StridedMemory& x) {
  std::array<std::pair<int64_t, int64_t>, max_array_rank> axes;  // stride and extent, smallest stride first
  size_t count = 0;
  for (size_t axis = x.sizes.size(); axis-- > 0;) {
    if (x.sizes[axis] == 1) continue;
    if (count == axes.size()) return false;
    const int64_t stride = std::abs(x.strides[axis]);
    size_t at = count++;
    for (; at > 0 && axes[at - 1].first > stride; --at) axes[at] = axes[at - 1];
    axes[at] = {stride, x.sizes[axis]};
  }
  int64_t reach = 0;
  for (size_t i = 0; i < count; ++i) {
    if (axes[i].first <= reach) return false;
    reach += axes[i].first * (axes[i].second - 1);
  }
  return true;
}

bool empty(const StridedMemory& x) { return std::find(x.sizes.begin(), x.sizes.end(), 0) != x.sizes.end(); }

}  // namespace

StridedMemory strided_memory(const ArrayArgument& array) {
  const auto rank = static_cast<size_t>(array.rank);
  return {static_cast<int64_t>(reinterpret_cast<intptr_t>(array.data)),
          info(array.dtype).bytes,
          {array.sizes.data(), rank},
          {array.strides.data(), rank}};
}

bool overlap(const StridedMemory& x, const StridedMemory& y) {
  if (empty(x) || empty(y)) return false;
  const auto [x_begin, x_end] = range(x);
  const auto [y_begin, y_end] = range(y);
  if (x_end <= y_begin || y_end <= x_begin) return false;
  // They overlap if byte a of x is byte b of y. a counts from x's first byte, and b back from y's last one.
  // An axis with a negative stride counts from its other end.
  Terms terms;
  int64_t distance = y.address - x.address;
  for (const bool back : {false, true}) {
    const StridedMemory& array = back ? y : x;
    for (size_t axis = 0; axis < array.sizes.size(); ++axis) {
      const int64_t stride = array.strides[axis] * array.bytes, most = array.sizes[axis] - 1;
      add(terms, stride < 0 ? -stride : stride, most);
      if (back ? stride > 0 : stride < 0) distance += (stride < 0 ? -stride : stride) * most;
    }
    add(terms, 1, array.bytes - 1);
    if (back) distance += array.bytes - 1;
  }
  return Search(std::move(terms), distance).found();
}

bool overlaps_itself(const StridedMemory& x) {
  if (empty(x) || nested(x)) return false;
  const auto stride = [&](size_t axis) { return std::abs(x.strides[axis]); };
  // Looks for two indices with one address. They differ by at least 1 in the first axis that differs, and by
  // any amount in later axes.
  for (size_t first = 0; first < x.sizes.size(); ++first) {
    if (x.sizes[first] == 1) continue;
    if (stride(first) == 0) return true;
    Terms terms;
    int64_t target = -stride(first);
    add(terms, stride(first), x.sizes[first] - 2);
    for (size_t axis = first + 1; axis < x.sizes.size(); ++axis) {
      add(terms, stride(axis), 2 * (x.sizes[axis] - 1));
      target += stride(axis) * (x.sizes[axis] - 1);
    }
    if (Search(std::move(terms), target).found()) return true;
  }
  return false;
}

}  // namespace tile
