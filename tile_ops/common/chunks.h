// Gradients made from one large matrix that exists in chunks only: all gradients take what they need from
// each chunk.
#pragma once
#include <functional>
#include <vector>

#include "tile/op.h"

namespace tile {

// The part of the whole's axes that a chunk is.
class Chunk {
 public:
  explicit Chunk(at::IntArrayRef whole) : from(whole.size(), 0), count(whole.vec()) {}
  std::vector<int64_t> from, count;

  int64_t elements() const { return c10::multiply_integers(count); }
  // Returns the chunk of a tensor that broadcasts to `whole`, except along own_axis (-1 or -2; 0: none).
  at::Tensor of(at::Tensor tensor, at::IntArrayRef whole, int64_t own_axis = 0) const;
};

// One of the gradients.
struct ChunkGradient {
  at::Tensor out;    // broadcasts to the whole; where it does, chunks are added up
  int64_t own_axis;  // as in Chunk::of()
  // Writes what the present chunk gives to `out`, a part of the gradient, or adds it to the values there.
  std::function<void(const Chunk&, const at::Tensor& out, bool accumulate)> run;
};

// The most elements of a chunk, while nothing has been written to the gradients `later`. Their memory may
// hold what make() computes.
using ChunkElements = std::function<int64_t(const std::vector<const ChunkGradient*>& later)>;

// For every chunk, make() and then each gradient's run(). Chunks of rows serve all. Gradients of 16 bits that
// would need large sums then have chunks of their own instead, made again, so that each number of them is
// written once: the first gradient's chunks come first.
void in_chunks(at::IntArrayRef whole, const ChunkElements& most, const std::vector<ChunkGradient>& gradients,
               const std::function<void(const Chunk&)>& make);
// As many as product_chunk_bytes hold; while launches are recorded, all, because a record keeps its memory.
int64_t most_chunk_elements(int64_t element_bytes);
// The same with chunks of so many. element_bytes: what make() takes for an element of the whole.
void in_chunks(at::IntArrayRef whole, int64_t element_bytes, const std::vector<ChunkGradient>& gradients,
               const std::function<void(const Chunk&)>& make);

}  // namespace tile
