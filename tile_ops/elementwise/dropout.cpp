// tile::dropout: a mask drawn from a seed and each element's index; the gradient draws it again.
#include <numeric>

#include "../common/arguments.h"
#include "../common/tuning.h"
#include "tile/rows.h"

namespace {

using at::Tensor;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

// Arrays are [slices, rows, columns]. Elements are numbered as the columns of one row, or by first + slice *
// slice_step + row * row_step + column * column_step.
template <class Array, class Tile>
struct DropoutOf {
  Array input;
  Array seed;  // [slices, 2]: Philox's key and stream
  Array out;
  Tile threshold;  // random bits below it drop an element
  Tile scale;      // of those that are kept
  Tile first, slice_step, row_step, column_step;
  bool one_row;
  int rows, columns;  // of a tile
};
void dropout_kernel(const DropoutOf<Array, Tile>& of) {
  const auto& [input, seed, out, threshold, scale, first, slice_step, row_step, column_step, one_row, rows,
               columns] = of;
  hint_threads(-1);  // a thread's blocks of Philox share its keys
  DType compute = compute_dtype(input.dtype());
  Tile j = bid(0), i = bid(1), slice = bid(2);
  Tile x = input[{slice}].tiled_view({rows, columns}).load({i, j}).astype(compute);
  View words = seed[{slice}].tiled_view({1});
  Tile key = words.load({0}).reshape({}), stream = words.load({1}).reshape({});
  // With one row the compiler sees that four neighbours of a thread are one block of Philox.
  Tile number = j.astype(i64) * columns;
  if (!one_row) {
    Tile row = (i.astype(i64) * rows + arange(rows, i64)) * row_step,
         column = (number + arange(columns, i64)) * column_step;
    number = first + slice.astype(i64) * slice_step + row.expand_dims(1) + column.expand_dims(0);
  }
  Tile kept = random_bits({rows, columns}, key, number, u32, stream) >= threshold.astype(u32);
  out[{slice}].tiled_view({rows, columns}).store({i, j}, where(kept, x * scale.astype(compute), 0));
}
Kernel dropout_of("dropout", dropout_kernel);

struct Axis {
  int64_t size, input, out, number;  // and its steps
  bool joins(const Axis& inner) const {
    return input == inner.input * inner.size && out == inner.out * inner.size &&
           number == inner.number * inner.size && size <= max_extent / inner.size;
  }
};

// The axes from `leading` on, from the farthest in the result's memory to the nearest, as few as there can
// be.
using Axes = c10::SmallVector<Axis, 6>;
Axes axes_of(const Tensor& input, const Tensor& out, int64_t leading) {
  Axes axes;
  int64_t number = 1;
  for (int64_t axis = input.dim(); axis-- > leading; number *= input.size(axis))
    if (input.size(axis) > 1)
      axes.push_back({input.size(axis), input.stride(axis), out.stride(axis), number});
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::tuple(a.out, a.number) > std::tuple(b.out, b.number);
  });
  for (size_t i = axes.size(); i-- > 1;)
    if (axes[i - 1].joins(axes[i])) {
      axes[i - 1] = {axes[i - 1].size * axes[i].size, axes[i].input, axes[i].out, axes[i].number};
      axes.erase(axes.begin() + static_cast<int64_t>(i));
    }
  return axes;
}

// Launches dropout for one seed, or for one seed for each index of the first axis. `begin`: the offsets at
// which the axes begin.
void drop(const Tensor& input, double p, const Tensor& seed, const Tensor& out, Axes axes,
          const Axis& begin = {1, 0, 0, 0}) {
  constexpr int64_t chunk = extent_of_chunks;
  const int64_t leading = seed.dim() - 1;
  const auto longest =
      std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.size > max_extent; });
  if (longest != axes.end()) {
    const Axis whole = *longest;
    for (int64_t from = 0; from < whole.size; from += chunk) {
      longest->size = std::min(chunk, whole.size - from);
      drop(input, p, seed, out, axes,
           {1, begin.input + from * whole.input, begin.out + from * whole.out,
            begin.number + from * whole.number});
    }
    return;
  }
  if (axes.empty()) axes.push_back({1, 1, 1, 1});
  if (axes.size() == 1) axes.insert(axes.begin(), {1, 0, 0, 0});
  const Axis rows = axes[axes.size() - 2], columns = axes.back();
  axes.resize(axes.size() - 2);
  // Slices are the seeds', or one of the axes; a launch for each index of what is left.
  Axis slices{1, 0, 0, 0};
  if (leading) {
    slices = {input.size(0), input.stride(0), out.stride(0), 0};
  } else if (!axes.empty()) {
    slices = axes.back();
    axes.pop_back();
  }
  const bool cpu = input.is_cpu(), one_row = axes.empty() && rows.size == 1 && columns.number == 1 &&
                                             slices.number == 0 && begin.number == 0;
  const int elements = cpu ? tuning::cpu_tile : tuning::gpu_tile;
  const int wide = one_row ? elements : columns.size > 512 ? 1024 : 64, high = elements / wide;
  const auto threshold = static_cast<int64_t>(std::min(std::ldexp(p, 32), 0x1p32 - 1));
  const Grid grid{ceil_div(columns.size, wide), ceil_div(rows.size, high), slices.size};
  const int64_t launches = std::accumulate(axes.begin(), axes.end(), int64_t{1},
                                           [](int64_t count, const Axis& axis) { return count * axis.size; });
  for (int64_t launch = 0; launch < launches; ++launch) {
    Axis at = begin;
    int64_t rest = launch;
    for (const Axis& axis : axes) {
      const int64_t index = rest % axis.size;
      rest /= axis.size;
      at.input += index * axis.input, at.out += index * axis.out, at.number += index * axis.number;
    }
    const auto view = [&](const Tensor& tensor, int64_t Axis::*step) {
      return strided(tensor, {slices.size, rows.size, columns.size},
                     {slices.*step, rows.*step, columns.*step}, at.*step);
    };
    dropout_of.launch(grid,
                      {.input = view(input, &Axis::input),
                       .seed = strided(seed, {slices.size, 2},
                                       {leading && seed.size(0) > 1 ? seed.stride(0) : 0, seed.stride(-1)}),
                       .out = view(out, &Axis::out),
                       .threshold = threshold,
                       .scale = 1 / (1 - p),
                       .first = at.number,
                       .slice_step = slices.number,
                       .row_step = rows.number,
                       .column_step = columns.number,
                       .one_row = one_row,
                       .rows = high,
                       .columns = wide});
  }
}

void run(const Tensor& input, double p, const Tensor& seed, Tensor& out) {
  if (out.numel() == 0) return;
  if (p == 0) return void(out.copy_(input));
  if (p == 1) return void(out.zero_());
  if (seed.dim() > 2) {
    for (int64_t i = 0; i < input.size(0); ++i) {
      Tensor part = out.select(0, i);
      run(input.select(0, i), p, seed.select(0, seed.size(0) == 1 ? 0 : i), part);
    }
    return;
  }
  drop(input, p, seed, out, axes_of(input, out, seed.dim() - 1));
}

Tensor result(const char* name, const Tensor& input, double p, const Tensor& seed) {
  require_floating(name, input);
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::value, "p is ", p, "; it must be a probability, from 0 to 1");
  if (seed.scalar_type() != at::kLong)
    fail(ErrorKind::type, "seed is ", dtype_name(seed.scalar_type()), "; it must be int64");
  bool fits = seed.dim() > 0 && seed.dim() <= input.dim() + 1 && seed.sym_size(-1) == 2;
  for (int64_t axis = 0; fits && axis < seed.dim() - 1; ++axis)
    fits = seed.sym_size(axis) == 1 || seed.sym_size(axis) == input.sym_size(axis);
  if (!fits)
    fail(ErrorKind::value, "seed has shape ", seed.sym_sizes(), " and ", name, " ", input.sym_sizes(),
         "; it must be [2], or [..., 2] with leading extents of ", name);
  return result_like(input);
}

// A sample's mask is that of a call with its seed: samples that share the seed share the mask.
VmapCall::Results batched(VmapCall& call, const char* name) {
  for (const char* argument : {name, "seed"})
    if (!call.batched(argument)) {
      const Tensor tensor = call[argument].toTensor();
      if (argument == name) {
        std::vector<c10::SymInt> sizes = tensor.sym_sizes().vec();
        sizes.insert(sizes.begin(), call.size());
        call[argument] = tensor.unsqueeze(0).expand_symint(sizes);
      } else {
        call[argument] = tensor.unsqueeze(0);
      }
    }
  return call.call();
}

const auto dropout = op("tile::dropout(Tensor input, float p, Tensor seed) -> Tensor out")
                         .outputs([](const Tensor& input, double p, const Tensor& seed) {
                           return result("input", input, p, seed);
                         })
                         .run(run)
                         .grad("tile::dropout_backward")
                         .vmap([](VmapCall& call) { return batched(call, "input"); });

const auto dropout_backward =
    op("tile::dropout_backward(Tensor grad_out, float p, Tensor seed) -> Tensor grad_input")
        .outputs([](const Tensor& grad, double p, const Tensor& seed) {
          return result("grad_out", grad, p, seed);
        })
        .run(run)
        .grad("tile::dropout_double_backward")
        .vmap([](VmapCall& call) { return batched(call, "grad_out"); });

const auto dropout_double_backward =
    op("tile::dropout_double_backward(Tensor grad_grad_input, float p, Tensor seed) -> Tensor grad_grad_out")
        .outputs([](const Tensor& grad, double p, const Tensor& seed) {
          return result("grad_grad_input", grad, p, seed);
        })
        .run(run)
        .vmap([](VmapCall& call) { return batched(call, "grad_grad_input"); });

}  // namespace
