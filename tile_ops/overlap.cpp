// Whether elements share memory: a bounded sum of strides that gives the distance between two places.
#include "overlap.h"

namespace tile {
namespace {

// step * i for every i from 0 to most.
struct Term {
  int64_t step, most;
};
using Terms = c10::SmallVector<Term, 18>;

void add(Terms& terms, int64_t step, int64_t most) {
  if (step == 0 || most <= 0) return;
  for (Term& term : terms)
    if (term.step == step) {
      term.most += most;
      return;
    }
  terms.push_back({step, most});
}

// Whether one number from each term can sum up to the target. Of the largest step few numbers can, as the
// others reach no farther than their sum: with the strides of a dense layout one or two.
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
    if (--turns_ < 0) return true;  // strides of no order: not known to be apart
    const auto [step, most] = terms_[i];
    const int64_t below = std::max<int64_t>(target - reach_[i + 1], 0);
    for (int64_t n = (below + step - 1) / step; n <= std::min(most, target / step); ++n)
      if (at(i + 1, target - step * n)) return true;
    return false;
  }

  Terms terms_;
  c10::SmallVector<int64_t, 18> reach_;
  int turns_ = 10000;
  bool found_ = false;
};

}  // namespace

bool overlap(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0) return false;
  // A meta tensor has no address, only a place in its storage.
  const bool meta = x.is_meta();
  if (meta && !x.storage().is_alias_of(y.storage())) return false;
  const auto address = [meta](const at::Tensor& t) {
    return meta ? t.storage_offset() * static_cast<int64_t>(t.itemsize())
                : static_cast<int64_t>(reinterpret_cast<intptr_t>(t.const_data_ptr()));
  };
  // Byte a of x is byte b of y: a counts from x's first byte, and b back from y's last one.
  Terms terms;
  int64_t last = 0;
  const auto add_tensor = [&](const at::Tensor& t, bool back) {
    const auto size = static_cast<int64_t>(t.itemsize());
    for (int64_t axis = 0; axis < t.dim(); ++axis) {
      add(terms, t.stride(axis) * size, t.size(axis) - 1);
      if (back) last += t.stride(axis) * size * (t.size(axis) - 1);
    }
    add(terms, 1, size - 1);
    if (back) last += size - 1;
  };
  add_tensor(x, false);
  add_tensor(y, true);
  return Search(std::move(terms), address(y) - address(x) + last).found();
}

bool overlaps_itself(const at::Tensor& x) {
  if (x.numel() < 2) return false;
  // Two indices of one place: the first axis in which they differ goes up by at least 1, the others by any
  // difference.
  for (int64_t first = 0; first < x.dim(); ++first) {
    if (x.size(first) == 1) continue;
    if (x.stride(first) == 0) return true;
    Terms terms;
    int64_t target = -x.stride(first);
    add(terms, x.stride(first), x.size(first) - 2);
    for (int64_t axis = first + 1; axis < x.dim(); ++axis) {
      add(terms, x.stride(axis), 2 * (x.size(axis) - 1));
      target += x.stride(axis) * (x.size(axis) - 1);
    }
    if (Search(std::move(terms), target).found()) return true;
  }
  return false;
}

}  // namespace tile
