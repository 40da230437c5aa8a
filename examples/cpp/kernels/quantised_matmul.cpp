// x @ weight.T with weights of 8 or 4 bits and a scale for each group of 64 along a row: the integers are
// loaded as they are, and converted to floats just before they are multiplied.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

constexpr int group = 64, half = group / 2;

// A byte holds two weights: the low bits are one of the group's first half, the high bits the one half a
// group later. Unpacking therefore moves no element to another thread.
Tile low_bits(const Tile& byte) { return (byte & 15).astype(i32) - 8; }
Tile high_bits(const Tile& byte) { return (byte >> 4).astype(i32) - 8; }

// weight: i8 [n, k], or u8 [n, k / 2] of 4 bits; scale: f32 [n, k / 64].
void matmul_kernel(Array x, Array weight, Array scale, Array out, int bm, int bn, DType operand) {
  Tile i = bid(0), j = bid(1), acc = zeros({bm, bn}, f32);
  View scales = scale.tiled_view({bn, 1});
  if (weight.dtype() == i8) {
    View rows = x.tiled_view({bm, group}), columns = weight.tiled_view({bn, group});
    for (Tile k : range(columns.num_tiles(1))) {
      Tile w = columns.load({j, k}).astype(f32) * scales.load({j, k});
      acc = mma(rows.load({i, k}).astype(operand), w.astype(operand).t(), acc);
    }
  } else {
    View rows = x.tiled_view({bm, half}), columns = weight.tiled_view({bn, half});
    for (Tile k : range(columns.num_tiles(1))) {
      Tile bytes = columns.load({j, k}), s = scales.load({j, k});
      Tile low = low_bits(bytes).astype(f32) * s, high = high_bits(bytes).astype(f32) * s;
      acc = mma(rows.load({i, 2 * k}).astype(operand), low.astype(operand).t(), acc);
      acc = mma(rows.load({i, 2 * k + 1}).astype(operand), high.astype(operand).t(), acc);
    }
  }
  out.tiled_view({bm, bn}).store({i, j}, acc);
}
Kernel matmul("quantised_matmul", matmul_kernel);

// The largest weight of a group becomes `most`; the others are scaled alike and rounded to the nearest
// integer.
void quantise_kernel(Array weight, Array out, Array scale, int rows, int most) {
  Tile i = bid(1), k = bid(0);
  View halves = weight.tiled_view({rows, half});
  Tile low = halves.load({i, 2 * k}).astype(f32), high = halves.load({i, 2 * k + 1}).astype(f32);
  Tile s = max(abs(low).max(1, true), abs(high).max(1, true)) / most;
  scale.tiled_view({rows, 1}).store({i, k}, s);
  const auto whole = [&](const Tile& w) { return round(w / where(s == 0.0, 1.0, s)).astype(i32); };
  if (out.dtype() == i8) {
    out.tiled_view({rows, half}).store({i, 2 * k}, whole(low));
    out.tiled_view({rows, half}).store({i, 2 * k + 1}, whole(high));
  } else {
    out.tiled_view({rows, half}).store({i, k}, (whole(low) + 8) | ((whole(high) + 8) << 4));
  }
}
Kernel quantise_groups("quantise", quantise_kernel);

const auto quantise =
    op("kernels::quantise(Tensor weight, int bits) -> (Tensor quantised, Tensor scale)")
        .outputs([](const at::Tensor& weight, int64_t bits) {
          if (weight.dim() != 2 || weight.sym_size(1) % group != 0)
            fail(ErrorKind::value, "weight is ", weight.sym_sizes(),
                 "; pass a matrix with rows of a multiple of 64");
          if (bits != 8 && bits != 4) fail(ErrorKind::value, "bits is ", bits, "; pass 8 or 4");
          const c10::SymInt n = weight.sym_size(0), k = weight.sym_size(1);
          return std::tuple(at::empty_symint({n, bits == 8 ? k : k / 2},
                                             weight.options().dtype(bits == 8 ? at::kChar : at::kByte)),
                            at::empty_symint({n, k / group}, weight.options().dtype(at::kFloat)));
        })
        .run([](const at::Tensor& weight, int64_t bits, at::Tensor& quantised, at::Tensor& scale) {
          const int rows = weight.is_cpu() ? 256 : 64;
          quantise_groups.launch({scale.size(1), ceil_div(weight.size(0), rows)}, weight, quantised, scale,
                                 rows, bits == 8 ? 127 : 7);
        });

const auto quantised_matmul =
    op("kernels::quantised_matmul(Tensor x, Tensor weight, Tensor scale) -> Tensor out")
        .outputs([](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale) {
          if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kHalf &&
              x.scalar_type() != at::kBFloat16)
            fail(ErrorKind::type, "x is ", x.scalar_type(), "; pass float32, float16 or bfloat16");
          if ((weight.scalar_type() != at::kChar && weight.scalar_type() != at::kByte) ||
              scale.scalar_type() != at::kFloat)
            fail(ErrorKind::type, "weight is ", weight.scalar_type(), " and scale ", scale.scalar_type(),
                 "; pass what quantise gives");
          const int64_t packed = weight.scalar_type() == at::kChar ? 1 : 2;
          if (x.dim() != 2 || weight.dim() != 2 || scale.dim() != 2 ||
              x.sym_size(1) != weight.sym_size(1) * packed || scale.sym_size(0) != weight.sym_size(0) ||
              scale.sym_size(1) * group != x.sym_size(1))
            fail(ErrorKind::value, "x is ", x.sym_sizes(), ", weight ", weight.sym_sizes(), " and scale ",
                 scale.sym_sizes(), "; pass [m, k], and of a weight [n, k] what quantise gives");
          return at::empty_symint({x.sym_size(0), weight.sym_size(0)}, x.options());
        })
        .run([](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale, at::Tensor& out) {
          const bool cpu = x.is_cpu(), few = x.size(0) <= 16;
          const int bm = few ? 16 : cpu ? 128 : 64, bn = cpu ? 256 : 64;
          matmul.launch({ceil_div(x.size(0), bm), ceil_div(weight.size(0), bn)}, x, weight, scale, out, bm,
                        bn, cpu ? f32 : to_dtype(x.scalar_type()));
        });

}  // namespace
