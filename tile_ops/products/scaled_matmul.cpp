// tile::scaled_matmul: the product of two matrices of 8-bit floats, each of which has scales in float32.
#include "../common/aligned_rows.h"
#include "../common/arguments.h"
#include "../common/tuning.h"
#include "product_operands.h"
#include "product_parts.h"
#include "tiles.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

// The extent of a block with one scale, along any axis.
constexpr int scaled_block = 128;

// The rows of a matrix (or the columns of other) that share a scale: each has its own, 128 share one, or all
// do.
enum class Scaled { each, block, all };

template <class Array, class Tile>
struct ScaledProductOf {
  Array x, y;                      // [m, k] and [k, n]
  Array x_scales, y_scales;        // [scales of rows, scales of k] and [scales of k, scales of columns]
  std::optional<Array> bias;       // [1, n]
  Array out;                       // [parts, m, n]
  std::optional<Tile> part_tiles;  // tiles of k that a block adds up; without them it adds up all
  Scaled rows, columns;
  bool by_blocks;  // scales change every 128 elements of k, as the tiles do
  bool promoted;   // a tile of k has a sum of its own, which is added to another one
  int bm, bn, bk;  // the tile of a product
  int halves;      // products of a block, side by side
  int steps;       // tiles of k of an iteration, which may end behind the last one; one where scales change
  int together;    // rows of tiles that share a GPU's cache
  bool paired;     // two blocks share the tiles of y
};

void scaled_product_kernel(const ScaledProductOf<Array, Tile>& of) {
  const auto& [x, y, x_scales, y_scales, bias, out, part_tiles, rows, columns, by_blocks, promoted, bm, bn,
               bk, halves, steps, together, paired] = of;
  const auto count = static_cast<size_t>(halves);
  if (paired) hint_pairs();
  const auto [i, j] = tile_of_block(cdiv(out.dim(1), bm), cdiv(out.dim(2), bn * halves), together, paired);
  Tile part = 0;
  const View left = x.tiled_view({bm, bk}), right = y.tiled_view({bk, bn});
  Tile low = 0, high = left.num_tiles(1);
  if (part_tiles) {
    part = bid(2);
    low = part * *part_tiles;
    high = min(low + *part_tiles, high);
  }
  std::vector<Tile> at;  // the products' tiles of columns
  for (int half = 0; half < halves; ++half) at.push_back(j * halves + half);
  const auto block_of = [](Scaled scaled, const Tile& tile, int extent) {
    if (scaled == Scaled::all) return Tile(0);
    return extent == scaled_block ? tile : tile * extent / scaled_block;
  };
  const auto row_scales = [&](const Tile& k) {
    return rows == Scaled::each ? x_scales.tiled_view({bm, 1}).load({i, k})
                                : x_scales.tiled_view({1, 1}).load({block_of(rows, i, bm), k});
  };
  const auto column_scales = [&](const Tile& k, size_t half) {
    return columns == Scaled::each ? y_scales.tiled_view({1, bn}).load({k, at[half]})
                                   : y_scales.tiled_view({1, 1}).load({k, block_of(columns, at[half], bn)});
  };
  struct Scales {
    Tile rows;
    std::vector<Tile> columns;
  };
  const auto scales_of = [&](const Tile& k) {
    Scales scales{row_scales(k), {}};
    for (size_t half = 0; half < count; ++half) scales.columns.push_back(column_scales(k, half));
    return scales;
  };
  const Tile zero = zeros({bm, bn}, f32);
  std::vector<Tile> sums(count, zero);
  // Scales are loaded an iteration ahead, unless those of each column would fill the registers.
  const bool ahead = by_blocks && columns != Scaled::each;
  std::optional<Scales> now;
  if (ahead) now = scales_of(low);
  for (Tile k : range(low, high, steps)) {
    std::optional<Scales> next;
    if (by_blocks) next = scales_of(ahead ? k + 1 : k);
    if (by_blocks && !ahead) now = next;
    for (int step = 0; step < steps; ++step) {
      Tile rows_of_x = left.load({i, k + step});
      for (size_t half = 0; half < count; ++half) {
        Tile columns_of_y = right.load({k + step, at[half]});
        if (!promoted) {
          sums[half] = mma(rows_of_x, columns_of_y, sums[half]);
          continue;
        }
        Tile product = mma(rows_of_x, columns_of_y, zero);
        if (by_blocks)
          sums[half] = fma(product, (now->rows * now->columns[half]).broadcast_to({bm, bn}), sums[half]);
        else
          sums[half] += product;
      }
    }
    if (!ahead) continue;
    now->rows = next->rows;
    for (size_t half = 0; half < count; ++half) now->columns[half] = next->columns[half];
  }
  for (size_t half = 0; half < count; ++half) {
    Tile sum = sums[half];
    if (!by_blocks) sum = sum * row_scales(0) * column_scales(0, half);
    if (bias) sum += bias->tiled_view({1, bn}).load({0, at[half]}).astype(f32);
    out[{part}].tiled_view({bm, bn}).store({i, at[half]}, sum);
  }
}
Kernel scaled_product("scaled_matmul", scaled_product_kernel);

// Arguments of the operator, in the order of its schema.
struct Call {
  const Tensor &input, &other, &scale_input, &scale_other;
  const optional<Tensor>& bias;
  optional<at::ScalarType> out_dtype;
  bool fast_accum;
};

c10::SymInt blocks_of(const c10::SymInt& extent) { return (extent + (scaled_block - 1)) / scaled_block; }

void require_eight_bits(const char* name, const Tensor& matrix) {
  const at::ScalarType type = matrix.scalar_type();
  if (type != at::kFloat8_e4m3fn && type != at::kFloat8_e5m2)
    fail(ErrorKind::type, name, " is ", dtype_name(type), "; it must be float8_e4m3fn or float8_e5m2");
  if (matrix.dim() != 2)
    fail(ErrorKind::value, name, " has shape ", matrix.sym_sizes(), "; it must be a matrix");
}

// along: the axis of the rows or columns that have scales; the other one is k.
void require_scales(const char* name, const Tensor& scales, const char* of_name, const Tensor& of,
                    int64_t along) {
  if (scales.scalar_type() != at::kFloat)
    fail(ErrorKind::type, name, " is ", dtype_name(scales.scalar_type()), "; it must be float32");
  if (scales.sym_numel() == 1) return;
  const c10::SymInt extent = of.sym_size(along), blocks = blocks_of(extent),
                    blocks_of_k = blocks_of(of.sym_size(1 - along));
  const bool fits = scales.dim() == 2 &&
                    (scales.sym_size(along) == extent || scales.sym_size(along) == blocks) &&
                    (scales.sym_size(1 - along) == 1 || scales.sym_size(1 - along) == blocks_of_k);
  if (fits) return;
  std::vector<std::string> shapes;
  const auto add = [&](const c10::SymInt& own, const c10::SymInt& k) {
    const std::string shape =
        along == 0 ? c10::str("[", own, ", ", k, "]") : c10::str("[", k, ", ", own, "]");
    if (shapes.empty() || shape != shapes.back()) shapes.push_back(shape);
  };
  add(extent, 1);
  add(extent, blocks_of_k);
  add(blocks, blocks_of_k);
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i)
    text += (i == 0 ? "" : i + 1 == shapes.size() ? " or " : ", ") + shapes[i];
  fail(ErrorKind::value, name, " has shape ", scales.sym_sizes(), " for ", of_name, " ", of.sym_sizes(),
       "; it must have one element, or be ", text);
}

Tensor result(const Call& call) {
  const auto& [input, other, scale_input, scale_other, bias, out_dtype, fast_accum] = call;
  require_eight_bits("input", input);
  require_eight_bits("other", other);
  if (input.sym_size(1) != other.sym_size(0))
    fail(ErrorKind::value, "cannot multiply input ", input.sym_sizes(), " by other ", other.sym_sizes(),
         "; the inner extents ", input.sym_size(1), " and ", other.sym_size(0), " differ");
  require_scales("scale_input", scale_input, "input", input, 0);
  require_scales("scale_other", scale_other, "other", other, 1);
  const auto require_type = [](const char* name, at::ScalarType type) {
    if (type != at::kHalf && type != at::kBFloat16 && type != at::kFloat)
      fail(ErrorKind::type, name, " is ", dtype_name(type), "; it must be float16, bfloat16 or float32");
  };
  if (bias) {
    require_type("bias", bias->scalar_type());
    if (bias->dim() != 1 || bias->sym_size(0) != other.sym_size(1))
      fail(ErrorKind::value, "bias has shape ", bias->sym_sizes(), "; it must be [", other.sym_size(1),
           "], an element for each column of other");
  }
  if (out_dtype) require_type("out_dtype", *out_dtype);
  return at::empty_symint({input.sym_size(0), other.sym_size(1)},
                          input.options().dtype(out_dtype.value_or(at::kBFloat16)));
}

// Scales as a kernel takes them.
struct Scales {
  Scaled scaled = Scaled::all;
  bool by_blocks = false;
  ArrayArgument array;

  Scales(const Tensor& scales, int64_t extent, int64_t along) {
    int64_t own = 1, of_k = 1, own_stride = 1, k_stride = 1;
    if (scales.numel() != 1) {
      own = scales.size(along), of_k = scales.size(1 - along);
      own_stride = scales.stride(along), k_stride = scales.stride(1 - along);
      scaled = own == extent ? Scaled::each : Scaled::block;
      by_blocks = of_k != 1;
    }
    array = along == 0 ? strided(scales, {own, of_k}, {own_stride, k_stride})
                       : strided(scales, {of_k, own}, {k_stride, own_stride});
  }
  // Repeats the scales along k.
  void repeat(int64_t count, int64_t along) {
    if (by_blocks) return;
    const auto k = static_cast<size_t>(1 - along);
    array.sizes[k] = count, array.strides[k] = 0;
  }
};

// Returns true if warpgroup instructions can read the matrix, whose rows lie along k.
bool reads_by_groups(const Tensor& rows) {
  const ArrayArgument array = at::to_array_argument(rows);
  return multiplies_by_groups(array) && rows.stride(1) == 1 && has_tensor_map(array);
}
// Replaces matrices that they cannot read by copies, if these are small together.
void copy_for_groups(Tensor& x, Tensor& y) {
  if (!multiplies_by_groups(at::to_array_argument(x))) return;
  int64_t bytes = 0;
  for (const Tensor* rows : {&x, &y})
    if (!reads_by_groups(*rows)) bytes += rows->numel();
  if (bytes > tuning::product_chunk_bytes) return;
  for (Tensor* rows : {&x, &y})
    if (!reads_by_groups(*rows)) *rows = copy_in_aligned_rows(*rows);
}

void run(const Call& call, Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = out.size(0), n = out.size(1), k = call.input.size(1);
  const bool cpu = out.is_cpu();
  Tensor x = call.input, columns_of_y = call.other.t();
  if (std::min(m, n) >= tuning::group_copied_extent) copy_for_groups(x, columns_of_y);
  const bool groups = reads_by_groups(x) && reads_by_groups(columns_of_y);
  Scales x_scales(call.scale_input, m, 0), y_scales(call.scale_other, n, 1);
  const bool by_blocks = x_scales.by_blocks || y_scales.by_blocks,
             promoted = by_blocks || (!cpu && !call.fast_accum);
  if (by_blocks) {
    x_scales.repeat(ceil_div(k, scaled_block), 0);
    y_scales.repeat(ceil_div(k, scaled_block), 1);
  }

  Division division{.tile = {m <= 16 ? 16 : 64, n <= 16 ? 16 : 64, scaled_block}};
  bool paired = false;
  if (groups) {
    const ProductShape shape{.m = m,
                             .n = n,
                             .k = k,
                             .element = 1,
                             .promoted = promoted,
                             .blocks = by_blocks || y_scales.scaled == Scaled::block};
    division = group_division(
        shape, std::clamp<int64_t>(tuning::part_sum_bytes / (m * n * 4), 1, tuning::most_product_parts));
    const bool straddles = (x.stride(0) | columns_of_y.stride(0)) % tuning::line_bytes != 0;
    paired = pays_in_pairs(shape, division, straddles);
  }
  const auto [rows, columns, depth] = division.tile;
  const int halves = promoted && columns > scaled_block ? 2 : 1;
  // Two tiles of k have sums of their own at a time, where the registers of a group hold them.
  const bool in_pairs = groups && promoted && !by_blocks && columns < 2 * scaled_block &&
                        division.parts == 1 && ceil_div(k, depth) % 2 == 0;

  optional<ArrayArgument> bias;
  if (call.bias) bias = strided(*call.bias, {1, n}, {0, call.bias->stride(0)});
  const auto launch = [&](const ArrayArgument& to, const optional<ArrayArgument>& added,
                          const optional<int>& part_tiles) {
    const int64_t across = ceil_div(n, columns), blocks = paired ? 2 : 1,
                  down = ceil_div(ceil_div(m, rows), blocks);
    scaled_product.launch({cpu ? down : down * across, cpu ? across : blocks, division.parts},
                          {.x = at::to_array_argument(x),
                           .y = at::to_array_argument(columns_of_y.t()),
                           .x_scales = x_scales.array,
                           .y_scales = y_scales.array,
                           .bias = added,
                           .out = to,
                           .part_tiles = part_tiles,
                           .rows = x_scales.scaled,
                           .columns = y_scales.scaled,
                           .by_blocks = by_blocks,
                           .promoted = promoted,
                           .bm = rows,
                           .bn = columns / halves,
                           .bk = depth,
                           .halves = halves,
                           .steps = in_pairs ? 2 : 1,
                           .together = cpu ? 1 : 16,
                           .paired = paired});
  };
  if (division.parts == 1)
    return launch(strided(out, {1, m, n}, {0, out.stride(0), out.stride(1)}), bias, std::nullopt);
  const Tensor sums = sums_of_parts(out, at::kFloat, division.parts, {1, 1}, m, n);
  launch(strided(sums, {division.parts, m, n}, {m * n, n, 1}), std::nullopt,
         static_cast<int>(division.part_tiles));
  const auto matrix = [&](const Tensor& tensor, int64_t row, int64_t column) {
    return strided(tensor, {1, 1, m, n}, {0, 0, row, column});
  };
  optional<ArrayArgument> wide_bias;
  if (call.bias) wide_bias = matrix(*call.bias, 0, call.bias->stride(0));
  add_parts(sums, division.parts, {1, 1},
            {.bias = wide_bias,
             .residual = std::nullopt,
             .pre = std::nullopt,
             .other_pre = std::nullopt,
             .out = matrix(out, out.stride(0), out.stride(1)),
             .alpha = 1.0,
             .activation = Activation::none,
             .scaled = false,
             .accumulate = false,
             .expression = std::nullopt});
}

const auto scaled_matmul =
    op("tile::scaled_matmul(Tensor input, Tensor other, Tensor scale_input, Tensor scale_other, *, Tensor? "
       "bias=None, ScalarType? out_dtype=None, bool fast_accum=False) -> Tensor out")
        .outputs(result)
        .run(run)
        .autocast("keep");

}  // namespace
