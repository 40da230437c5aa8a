// How a matrix is cut into chunks, and which gradients share them.
#include "chunks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "derivation.h"
#include "tile/rows.h"
#include "tuning.h"

namespace tile {

int64_t most_chunk_elements(int64_t element_bytes) {
  return is_recorded() ? std::numeric_limits<int64_t>::max() : tuning::product_chunk_bytes / element_bytes;
}

namespace {

// Along an axis of the whole: whether different indices give different numbers of the tensor.
bool has_axis(const at::Tensor& tensor, at::IntArrayRef whole, size_t axis, int64_t own_axis) {
  const int64_t from_last = static_cast<int64_t>(axis) - static_cast<int64_t>(whole.size());
  return from_last != own_axis && tensor.dim() >= -from_last && tensor.size(from_last) != 1;
}
bool has_axis(const ChunkGradient& gradient, at::IntArrayRef whole, size_t axis) {
  return has_axis(gradient.out, whole, axis, gradient.own_axis);
}

// Extents that tiles of products divide, where there is room for them.
int64_t rounded(int64_t extent) {
  for (const int64_t unit : {1024, 256})
    if (extent >= unit) return extent / unit * unit;
  return std::max<int64_t>(extent, 1);
}

// The extents of chunks of at most so many elements: axes are cut in this order, outermost chunks first.
std::vector<int64_t> chunk_extents(at::IntArrayRef whole, const std::vector<size_t>& order, int64_t most) {
  std::vector<int64_t> extents = whole.vec();
  for (const size_t axis : order) {
    const int64_t elements = c10::multiply_integers(extents);
    if (elements <= most) break;
    const int64_t beside = elements / extents[axis];
    extents[axis] = rounded(std::min(extents[axis], most / beside));
  }
  return extents;
}

template <class F>
void each_chunk(at::IntArrayRef whole, const std::vector<int64_t>& extents, F f) {
  Chunk chunk(whole);
  for (size_t axis = whole.size();;) {
    for (size_t a = 0; a < whole.size(); ++a) chunk.count[a] = std::min(extents[a], whole[a] - chunk.from[a]);
    f(chunk);
    for (axis = whole.size(); axis-- > 0; chunk.from[axis] = 0)
      if ((chunk.from[axis] += extents[axis]) < whole[axis]) break;
    if (axis == static_cast<size_t>(-1)) return;
  }
}

// A gradient, and which axes are cut that are not its own: along these, chunks are added up.
struct Member {
  Member(const ChunkGradient& gradient, at::IntArrayRef whole, const std::vector<int64_t>& extents)
      : gradient(&gradient) {
    for (size_t axis = 0; axis < whole.size(); ++axis)
      summed.push_back(extents[axis] != whole[axis] && !has_axis(gradient, whole, axis));
  }
  const ChunkGradient* gradient;
  std::vector<bool> summed;
  at::Tensor sums;  // where they are not made in the gradient

  int64_t bytes_of_sums() const {
    const at::Tensor& out = gradient->out;
    const bool here = compute_dtype(out.scalar_type()) == out.scalar_type();
    const bool adds = std::find(summed.begin(), summed.end(), true) != summed.end();
    return here || !adds ? 0 : out.numel() * static_cast<int64_t>(sizeof(float));
  }
  void run(const Chunk& chunk, at::IntArrayRef whole) const {
    bool accumulate = false;
    for (size_t axis = 0; axis < whole.size(); ++axis) accumulate |= summed[axis] && chunk.from[axis] != 0;
    const at::Tensor& to = sums.defined() ? sums : gradient->out;
    gradient->run(chunk, chunk.of(to, whole, gradient->own_axis), accumulate);
  }
};
}  // namespace

at::Tensor Chunk::of(at::Tensor tensor, at::IntArrayRef whole, int64_t own_axis) const {
  for (size_t axis = 0; axis < whole.size(); ++axis)
    if (count[axis] != whole[axis] && has_axis(tensor, whole, axis, own_axis))
      tensor = tensor.narrow(static_cast<int64_t>(axis) - static_cast<int64_t>(whole.size()), from[axis],
                             count[axis]);
  return tensor;
}

void in_chunks(at::IntArrayRef whole, const ChunkElements& most, const std::vector<ChunkGradient>& gradients,
               const std::function<void(const Chunk&)>& make) {
  std::vector<const ChunkGradient*> left;
  for (const ChunkGradient& gradient : gradients) left.push_back(&gradient);
  std::vector<size_t> order(whole.size());
  std::iota(order.begin(), order.end(), 0);
  while (!left.empty()) {
    std::vector<int64_t> extents = chunk_extents(whole, order, most({}));
    std::vector<Member> members;
    int64_t bytes = 0;
    for (const ChunkGradient* gradient : left)
      bytes += members.emplace_back(*gradient, whole, extents).bytes_of_sums();
    left.clear();
    if (bytes > tuning::product_sum_bytes) {
      // The axes of the first come first. Those that share its chunks, or are small, go with it.
      const ChunkGradient& first = *members[0].gradient;
      std::vector<size_t> own_first = order;
      std::stable_partition(own_first.begin(), own_first.end(),
                            [&](size_t axis) { return has_axis(first, whole, axis); });
      extents = chunk_extents(whole, own_first, most({}));
      std::vector<const ChunkGradient*> with_first;
      for (const Member& member : members) {
        const Member with(*member.gradient, whole, extents);
        const bool joins = member.gradient == &first || with.bytes_of_sums() <= tuning::product_sum_bytes / 4;
        (joins ? with_first : left).push_back(member.gradient);
      }
      extents = chunk_extents(whole, own_first, most(left));
      members.clear();
      for (const ChunkGradient* gradient : with_first) members.emplace_back(*gradient, whole, extents);
    }
    for (Member& member : members)
      if (const at::Tensor& out = member.gradient->out; member.bytes_of_sums() != 0)
        member.sums = at::empty(out.sizes(), out.options().dtype(at::kFloat));
    each_chunk(whole, extents, [&](const Chunk& chunk) {
      make(chunk);
      for (const Member& member : members) member.run(chunk, whole);
    });
    for (const Member& member : members)
      if (member.sums.defined()) at::Tensor(member.gradient->out).copy_(member.sums);
  }
}

void in_chunks(at::IntArrayRef whole, int64_t element_bytes, const std::vector<ChunkGradient>& gradients,
               const std::function<void(const Chunk&)>& make) {
  const int64_t most = most_chunk_elements(element_bytes);
  in_chunks(
      whole, [most](const std::vector<const ChunkGradient*>&) { return most; }, gradients, make);
}

}  // namespace tile
