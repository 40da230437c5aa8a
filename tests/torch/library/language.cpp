// An operator of small kernels in the language: loops with breaks, elements that several blocks change.
#include <ATen/ops/empty.h>

#include "tile/op.h"

namespace {

using namespace tile;  // NOLINT: kernels are written in the language

// The index of the first 5, and the sum of the elements before it, without negative ones.
void search_kernel(Array x, Array out) {
  Tile found = -1, sum = 0;
  for (Tile i : range(x.dim(0))) {
    Tile value = gather(x, {i});
    when(value < 0, [&] { continue_loop(); });
    when(value == 5, [&] {
      found = i;
      break_loop();
    });
    sum += value;
  }
  scatter(out, {0}, found);
  scatter(out, {1}, sum);
}

// Iterates until 1 is reached, at most 50 times.
void collatz_kernel(Array x, Array out) {
  for (Tile i : range(bid(0), x.dim(0), num_blocks(0))) {
    Tile value = gather(x, {i}), turns = 0;
    while_loop([&] { return value > 1; },
               [&] {
                 when(turns == 50, [&] { break_loop(); });
                 turns += 1;
                 when(
                     value % 2 == 0, [&] { value /= 2; }, [&] { value = 3 * value + 1; });
               });
    scatter(out, {i}, turns);
  }
}

// Overlapping tiles: operation k gives row k of the result.
void views_kernel(Array x, Array out) {
  Tile tile = x.tiled_view({4}).load({bid(0)});
  const auto row = [&](int k) { return out[{k}].tiled_view({4}, {3}); };
  row(0).atomic_max({bid(0)}, tile);
  row(1).atomic_min({bid(0)}, tile);
  row(2).atomic_and({bid(0)}, tile);
  row(3).atomic_or({bid(0)}, tile);
  row(4).atomic_xor({bid(0)}, tile);
  row(5).atomic_add({bid(0)}, tile);
}

// Accesses only the elements of a mask.
void masked_kernel(Array x, Array out) {
  Tile tile = x.tiled_view({16}).load({0}), index = arange(16), even = index % 2 == 0;
  scatter(out, {index}, tile, even);
  Tile before = atomic_add(out, {index}, 100, {.order = MemoryOrder::relaxed, .mask = ~even});
  Tile swapped = atomic_cas(out, {index}, tile, -1, {.mask = index < 4});
  scatter(out, {index + 16}, before);
  scatter(out, {index + 32}, swapped);
}

// Counts how often each number occurs.
void counts_kernel(Array x, Array out) {
  atomic_add(out, {x.tiled_view({16}).load({bid(0)}, 0)},
             where(bid(0) * 16 + arange(16) < x.dim(0), full({16}, 1, i32), 0));
}

void copy_kernel(Array from, Array to) {
  const Shape shape = from.rank() == 1 ? Shape{1024} : Shape{8, 16};
  if (from.rank() == 1)
    to.tiled_view(shape).store({0}, from.tiled_view(shape).load({0}));
  else
    to.tiled_view(shape).store({0, 0}, from.tiled_view(shape).load({0, 0}));
}
Kernel copy("copy", copy_kernel);

Kernel search("search", search_kernel), collatz("collatz", collatz_kernel), views("views", views_kernel),
    masked("masked", masked_kernel), counts("counts", counts_kernel);
decltype(search)* const kernels[] = {&search, &collatz, &views, &masked, &counts};

const auto language_ =
    op("tt::language(Tensor x, Tensor start, int what, int blocks) -> Tensor out")
        .outputs([](const at::Tensor&, const at::Tensor& start, int64_t, int64_t) {
          return at::empty_like(start);
        })
        .run([](const at::Tensor& x, const at::Tensor& start, int64_t what, int64_t blocks, at::Tensor& out) {
          copy.launch({1}, start, out);
          kernels[what]->launch({blocks}, x, out);
        });

}  // namespace
