// The product kernel, and how operands of any rank and strides become what it takes.
#include "gemm.h"

#include <ATen/Context.h>

#include "../common/aligned_rows.h"
#include "../common/arguments.h"
#include "../common/derivation.h"
#include "../common/tuning.h"
#include "product_operands.h"
#include "product_parts.h"
#include "recorded_product.h"
#include "thin_product.h"
#include "tiles.h"

namespace tile {
namespace {

template <class Array, class Tile>
struct ProductOf {
  Array x, y;                  // [batch, batch, summed, m, k] and [batch, batch, summed, k, n]
  std::optional<Array> other;  // of a second product, as y
  EpilogueOf<Array, Tile> epilogue;
  std::optional<Tile> part_tiles;  // tiles of k that a block adds up; without them it adds up all
  bool batched, groups;            // has several batches; multiplies on warpgroup instructions
  bool rounded;                    // operands of float32 are rounded to tf32
  bool paired;                     // two blocks share the tiles of y
  Second second;
  bool apart;      // a second product that is a factor has its own loop; otherwise both share the loads of x
  int bm, bn, bk;  // the tile
  int together;    // rows of tiles that share a GPU's cache
  int chain;  // tiles of k with a sum of their own, as tensor cores drop low bits at each addition; 0: all
};
void product_kernel(const ProductOf<Array, Tile>& of) {
  const auto& [x, y, other, epilogue, part_tiles, batched, groups, rounded, paired, second, apart, bm, bn, bk,
               together, chain] = of;
  const Array& out = epilogue.out;
  DType compute = x.dtype() == f64 ? f64 : f32;
  if (paired) hint_pairs();
  const auto [i, j] = tile_of_block(cdiv(out.dim(2), bm), cdiv(out.dim(3), bn), together, paired);
  PartOfBlock part = part_of_block(x, out, batched, part_tiles);
  const Tile &b0 = part.b0, &b1 = part.b1;
  Tile acc = zeros({bm, bn}, compute), factor = acc;
  const auto left = [&](const Operand& s) { return x[{b0, b1, s}].tiled_view({bm, bk}); };
  const auto right = [&](const Array& array, const Operand& s) {
    return array[{b0, b1, s}].tiled_view({bk, bn});
  };
  const auto for_tiles = [&](const Tile& tiles, std::initializer_list<Tile*> sums, const auto& add) {
    const Tile end = part.high(tiles);
    if (chain == 0) {
      for (Tile k : range(part.low, end)) add(k);
      return;
    }
    for (Tile first : range(part.low, end, chain)) {
      std::vector<Tile> before;
      for (Tile* sum : sums) {
        before.push_back(*sum);
        *sum = zeros({bm, bn}, compute);
      }
      for (Tile k : range(first, min(first + chain, end))) add(k);
      auto sum_before = before.begin();
      for (Tile* sum : sums) *sum += *sum_before++;
    }
  };
  const auto operand = [&](Tile tile) { return rounded ? tile.astype(tf32) : tile; };
  // One blocked product on a CPU.
  const auto sum = [&](const View& rows, const View& columns, Tile& to) {
    for_tiles(rows.num_tiles(1), {&to}, [&](const Tile& k) {
      to = mma(operand(rows.load({i, k})), operand(columns.load({k, j})), to);
    });
  };
  if (second == Second::none) {
    // Sums of warpgroup instructions start at zero in the loop of their products.
    for (Tile s : range(groups ? 1 : Operand(x.dim(2)))) sum(left(s), right(y, s), acc);
  } else if (second == Second::summand) {
    sum(left(0), right(y, 0), acc);
    sum(left(1), right(*other, 0), groups ? factor : acc);
    if (groups) acc += factor;
  } else if (apart) {
    sum(left(0), right(y, 0), acc);
    sum(left(0), right(*other, 0), factor);
  } else {
    View rows = left(0), one = right(y, 0), two = right(*other, 0);
    for_tiles(rows.num_tiles(1), {&acc, &factor}, [&](const Tile& k) {
      Tile shared = operand(rows.load({i, k}));
      acc = mma(shared, operand(one.load({k, j})), acc);
      factor = mma(shared, operand(two.load({k, j})), factor);
    });
  }
  std::optional<Tile> multiplier;
  if (second == Second::factor) multiplier = factor;
  finish(epilogue, acc, multiplier, {part.slot, b1, i, j});
}
Kernel product("matmul", product_kernel);

using Extents = c10::SmallVector<int64_t, 6>;

// One tensor of a product: strides over the product's axes (0: broadcast) and over its own two.
struct Matrix {
  at::Tensor tensor;
  int64_t offset = 0;  // in elements, from the tensor's first
  Extents strides;
  int64_t row = 0, column = 0;

  bool used() const { return tensor.defined(); }
  // Replaces the matrix by a copy whose rows, or columns if these are adjacent, begin at multiples of 16
  // bytes.
  void copy_to_aligned_rows(std::array<int64_t, 2> sizes) {
    const at::Tensor given = tensor.as_strided(sizes, {row, column}, tensor.storage_offset() + offset);
    const bool by_columns = row == 1;
    tensor = by_columns ? copy_in_aligned_rows(given.t()).t() : copy_in_aligned_rows(given);
    offset = 0, row = tensor.stride(0), column = tensor.stride(1);
  }
  // Replaces the matrix by a copy whose elements are adjacent along an axis, in rows or columns that begin
  // so.
  void copy_along(size_t axis, std::array<int64_t, 2> sizes) {
    const at::Tensor given = tensor.as_strided(sizes, {row, column}, tensor.storage_offset() + offset);
    tensor = axis ? copy_in_aligned_rows(given) : copy_in_aligned_rows(given.t()).t();
    offset = 0, row = tensor.stride(0), column = tensor.stride(1);
  }
};

// Returns true if torch allows products of float32 on a GPU to round their operands to tf32.
bool rounding_is_allowed() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}

struct Axis {
  int64_t size;
  bool summed;
};

bool too_long(int64_t size, int64_t other) { return size > max_extent / std::max<int64_t>(other, 1); }
bool joins(int64_t outer, int64_t inner, int64_t inner_size) { return outer == inner * inner_size; }

class Product {
 public:
  Product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const Epilogue& epilogue)
      : m_(x.size(-2)),
        n_(y.size(-1)),
        k_(x.size(-1)),
        rounded_(x.scalar_type() == at::kFloat && !x.is_cpu() && !epilogue.exact && rounding_is_allowed()),
        epilogue_(epilogue) {
    c10::SmallVector<const at::Tensor*, usual> tensors{&x,
                                                       &y,
                                                       &out,
                                                       &epilogue.bias,
                                                       &epilogue.residual,
                                                       &epilogue.pre,
                                                       &epilogue.other,
                                                       &epilogue.other_pre};
    if (epilogue.expression)
      for (const auto* more : {&epilogue.expression->tensors, &epilogue.expression->outs})
        for (const at::Tensor& tensor : *more) tensors.push_back(&tensor);
    matrices_.resize(tensors.size());
    const int64_t rank = std::max({x.dim(), y.dim(), out.dim()});
    for (int64_t axis = -rank; axis < -2; ++axis) {
      const auto size = [axis](const at::Tensor& t) { return t.dim() < -axis ? 1 : t.size(axis); };
      const int64_t extent = size(x) == 1 ? size(y) : size(x);
      if (extent != 1) axes_.push_back({extent, size(out) == 1});
      for (size_t t = 0; t < tensors.size() && extent != 1; ++t)
        if (tensors[t]->defined())
          matrices_[t].strides.push_back(size(*tensors[t]) == 1 ? 0 : tensors[t]->stride(axis));
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      const at::Tensor& tensor = *tensors[t];
      if (!tensor.defined()) continue;
      // Rows and columns broadcast too.
      const auto stride = [&](int64_t axis, int64_t extent) {
        return tensor.dim() < -axis || tensor.size(axis) != extent ? 0 : tensor.stride(axis);
      };
      Matrix& matrix = matrices_[t];
      matrix.tensor = tensor;
      matrix.row = stride(-2, is_right(t) ? k_ : m_);
      matrix.column = stride(-1, t == X ? k_ : n_);
    }
  }

  void run() {
    join_axes();
    fold_axes();
    if (summed() > 1) {
      for (const size_t t : {X, Y}) make_dense(matrices_[t]);
      join_axes();
    }
    swap_to_rows();
    if (epilogue_.may_copy && rounded_) return launch_rounded();
    if (epilogue_.may_copy) copy_for_groups();
    launch(0);
  }

 private:
  // The tensors of an expression follow, then its results after the first.
  enum : size_t { X, Y, Out, Bias, Residual, Pre, Other, OtherPre, count };
  static constexpr size_t usual = count + 4;  // so many are not on the heap
  static bool is_right(size_t t) { return t == Y || t == Other; }

  template <class F>
  bool all_of(F holds) const {
    for (size_t t = 0; t < matrices_.size(); ++t)
      if (matrices_[t].used() && !holds(t, matrices_[t])) return false;
    return true;
  }
  size_t summed() const {
    return static_cast<size_t>(std::count_if(axes_.begin(), axes_.end(), [](Axis a) { return a.summed; }));
  }
  void erase(size_t axis) {
    axes_.erase(axes_.begin() + axis);
    for (Matrix& matrix : matrices_)
      if (matrix.used()) matrix.strides.erase(matrix.strides.begin() + axis);
  }

  // Two axes that every tensor steps through as one become one.
  void join_axes() {
    for (size_t inner = axes_.size(); inner-- > 0;)
      for (size_t outer = inner; outer-- > 0;) {
        if (axes_[outer].summed != axes_[inner].summed || too_long(axes_[outer].size, axes_[inner].size))
          continue;
        if (!all_of([&](size_t, const Matrix& t) {
              return joins(t.strides[outer], t.strides[inner], axes_[inner].size);
            }))
          continue;
        axes_[inner].size *= axes_[outer].size;
        erase(outer);
        --inner;
      }
  }

  // Axes that can continue the rows, the columns or the inner extent do: fewer, larger products.
  void fold_axes() {
    for (size_t axis = axes_.size(); axis-- > 0;) {
      const int64_t size = axes_[axis].size;
      if (too_long(size, std::max({m_, n_, k_}))) continue;
      const auto step = [axis](const Matrix& t) { return t.strides[axis]; };
      if (axes_[axis].summed) {
        if (epilogue_.second == Second::summand) continue;  // x's two halves
        Matrix &x = matrices_[X], &y = matrices_[Y];
        if (k_ != 1 && !(joins(step(x), x.column, k_) && joins(step(y), y.row, k_))) continue;
        if (k_ == 1) x.column = step(x), y.row = step(y);
        k_ *= size;
      } else if (all_of([&](size_t t, const Matrix& it) {
                   return is_right(t) ? step(it) == 0 : m_ == 1 || joins(step(it), it.row, m_);
                 })) {
        for (size_t t = 0; t < matrices_.size(); ++t)
          if (m_ == 1 && !is_right(t) && matrices_[t].used()) matrices_[t].row = step(matrices_[t]);
        m_ *= size;
      } else if (step(matrices_[X]) == 0 && all_of([&](size_t t, const Matrix& it) {
                   return t == X || n_ == 1 || joins(step(it), it.column, n_);
                 })) {
        for (size_t t = 0; t < matrices_.size(); ++t)
          if (n_ == 1 && t != X && matrices_[t].used()) matrices_[t].column = step(matrices_[t]);
        n_ *= size;
      } else {
        continue;
      }
      erase(axis);
    }
  }

  // A copy in which all summed axes are one, for the rare operands in which they are not.
  void make_dense(Matrix& t) {
    Extents sizes, steps;
    for (const bool summed : {false, true})
      for (size_t axis = 0; axis < axes_.size(); ++axis)
        if (axes_[axis].summed == summed) {
          sizes.push_back(!summed && t.strides[axis] == 0 ? 1 : axes_[axis].size);
          steps.push_back(t.strides[axis]);
        }
    const bool left = &t == &matrices_[X];
    sizes.append({left ? m_ : k_, left ? k_ : n_});
    steps.append({t.row, t.column});
    t.tensor = t.tensor.as_strided(sizes, steps, t.tensor.storage_offset()).contiguous();
    size_t at = 0;
    for (const bool summed : {false, true})
      for (size_t axis = 0; axis < axes_.size(); ++axis)
        if (axes_[axis].summed == summed) {
          if (t.strides[axis] != 0 || summed) t.strides[axis] = t.tensor.stride(at);
          ++at;
        }
    t.row = t.tensor.stride(-2);
    t.column = t.tensor.stride(-1);
  }

  // Copies matrices that the copy unit cannot read to rows of a multiple of 16 bytes, if their copies are
  // small.
  void copy_for_groups() {
    if (!axes_.empty() || std::min(m_, n_) < tuning::group_copied_extent) return;
    std::vector<size_t> copied;
    int64_t bytes = 0;
    for (const size_t t : {X, Y, Other}) {
      const Matrix& matrix = matrices_[t];
      if (!matrix.used()) continue;
      const ArrayArgument array =
          strided(matrix.tensor, sizes_of(t), {matrix.row, matrix.column}, matrix.offset);
      if (!multiplies_by_groups(array)) return;
      if (has_tensor_map(array)) continue;
      copied.push_back(t);
      bytes += sizes_of(t)[0] * sizes_of(t)[1] * matrix.tensor.element_size();
    }
    if (bytes > tuning::product_chunk_bytes) return;
    for (const size_t t : copied) matrices_[t].copy_to_aligned_rows(sizes_of(t));
  }
  // Returns true if warpgroup instructions can multiply the matrix. They read tf32 only along k.
  bool by_groups(size_t t, const ArrayArgument& array) const {
    if (!multiplies_by_groups(array, rounded_ ? DType::tf32 : array.dtype) || !has_tensor_map(array))
      return false;
    return !rounded_ || (is_right(t) ? matrices_[t].row : matrices_[t].column) == 1;
  }

  // Copies operands of tf32 that do not lie along k so that they do, where both copies and the product take
  // less time than the product on mma.sync. The copies of some rows, or columns, exist at a time.
  void launch_rounded() {
    Copies copies;
    for (const size_t t : {X, Y, Other}) {
      if (!matrices_[t].used()) continue;
      const Matrix& matrix = matrices_[t];
      const ArrayArgument array =
          strided(matrix.tensor, sizes_of(t), {matrix.row, matrix.column}, matrix.offset);
      if (!multiplies_by_groups(array, DType::tf32)) return launch(0);
      if (!by_groups(t, array)) ++(t == X ? copies.left : copies.right);
    }
    // Both right operands are copied, or none.
    if (copies.right) copies.right = matrices_[Other].used() ? 2 : 1;
    const bool copied = copies.left || copies.right;
    if (!copied || !axes_.empty() || epilogue_.second == Second::summand) return launch(0);
    const ProductShape shape{
        .m = m_, .n = n_, .k = k_, .two = epilogue_.second == Second::factor, .element = 4, .rounded = true};
    const std::optional<CopiedParts> parts = copied_parts(shape, copies, tuning::product_chunk_bytes);
    if (!parts) return launch(0);
    const int64_t m = m_, n = n_;
    const auto whole = matrices_;
    for (int64_t i = 0; i < m; i += parts->rows) {
      m_ = std::min(parts->rows, m - i);
      Matrix left = whole[X];
      left.offset += i * left.row;
      if (copies.left) left.copy_along(1, {m_, k_});
      for (int64_t j = 0; j < n; j += parts->columns) {
        n_ = std::min(parts->columns, n - j);
        matrices_ = whole;
        for (size_t t = 0; t < matrices_.size(); ++t) {
          Matrix& each = matrices_[t];
          if (!is_right(t)) each.offset += i * each.row;
          if (t != X) each.offset += j * each.column;
        }
        matrices_[X] = left;
        for (const size_t t : {Y, Other})
          if (copies.right && matrices_[t].used()) matrices_[t].copy_along(0, {k_, n_});
        launch(0);
      }
    }
  }
  std::array<int64_t, 2> sizes_of(size_t t) const { return {is_right(t) ? k_ : m_, t == X ? k_ : n_}; }

  // A result stored column by column is the transposed product, stored row by row. On a GPU kernels of few
  // rows compute results of few columns, too. Of two products that would be one of two left matrices: their
  // results are written as they lie.
  void swap_to_rows() {
    if (epilogue_.second != Second::none) return;
    const bool by_columns = n_ != 1 && matrices_[Out].row == 1 && matrices_[Out].column != 1,
               gpu = !matrices_[Out].tensor.is_cpu(), few_rows = gpu && is_thin(m_, k_);
    few_columns_ = gpu && is_thin(n_, k_) && !few_rows;
    if (few_rows || !(few_columns_ || by_columns)) return;
    std::swap(matrices_[X], matrices_[Y]);
    std::swap(m_, n_);
    for (Matrix& t : matrices_) std::swap(t.row, t.column);
  }

  void launch(size_t first) {
    Extents kept;
    std::optional<size_t> sum;
    for (size_t axis = first; axis < axes_.size(); ++axis)
      if (axes_[axis].summed)
        sum = axis;
      else
        kept.push_back(static_cast<int64_t>(axis));
    if (kept.size() > 2) {  // one launch for each index of the outermost
      const size_t axis = static_cast<size_t>(kept[0]);
      std::swap(axes_[first], axes_[axis]);
      for (Matrix& t : matrices_)
        if (t.used()) std::swap(t.strides[first], t.strides[axis]);
      for (int64_t index = 0; index < axes_[first].size; ++index) {
        launch(first + 1);
        for (Matrix& t : matrices_)
          if (t.used()) t.offset += t.strides[first];
      }
      for (Matrix& t : matrices_)
        if (t.used()) t.offset -= t.strides[first] * axes_[first].size;
      return;
    }
    while (kept.size() < 2) kept.insert(kept.begin(), -1);
    const bool adds = epilogue_.second == Second::summand;
    const auto size = [&](int64_t axis) { return axis < 0 ? 1 : axes_[static_cast<size_t>(axis)].size; };
    const auto view = [&](size_t which, int64_t rows, int64_t columns) -> std::optional<ArrayArgument> {
      const Matrix& t = matrices_[which];
      if (!t.used()) return std::nullopt;
      Extents sizes, steps;
      const auto add = [&](int64_t axis) {
        sizes.push_back(size(axis));
        steps.push_back(axis < 0 ? 0 : t.strides[static_cast<size_t>(axis)]);
      };
      add(kept[0]);
      add(kept[1]);
      // If two products are added, each right operand belongs to one half of x.
      if (which == X || is_right(which))
        add(sum && !(is_right(which) && adds) ? static_cast<int64_t>(*sum) : -1);
      sizes.append({rows, columns});
      steps.append({t.row, t.column});
      return strided(t.tensor, sizes, steps, t.offset);
    };
    std::optional<detail::Launched<ExpressionOf<Array, Tile>>> expression;
    if (epilogue_.expression) {
      const auto& [text, places, tensors, numbers, outs] = *epilogue_.expression;
      expression.emplace(text, places);
      for (size_t k = 0; k < tensors.size() + outs.size(); ++k)
        (k < tensors.size() ? expression->tensors : expression->outs).emplace_back(*view(count + k, m_, n_));
      expression->numbers.assign(numbers.begin(), numbers.end());
    }
    const ArrayArgument x = *view(X, m_, k_), y = *view(Y, k_, n_);
    const std::optional<ArrayArgument> other = view(Other, k_, n_);
    const detail::Launched<EpilogueOf<Array, Tile>> epilogue{.bias = view(Bias, m_, n_),
                                                             .residual = view(Residual, m_, n_),
                                                             .pre = view(Pre, m_, n_),
                                                             .other_pre = view(OtherPre, m_, n_),
                                                             .out = *view(Out, m_, n_),
                                                             .alpha = epilogue_.alpha,
                                                             .activation = epilogue_.activation,
                                                             .scaled = epilogue_.alpha != 1,
                                                             .accumulate = epilogue_.accumulate,
                                                             .expression = std::move(expression)};
    const Problem problem{x, y, other, epilogue, {size(kept[0]), size(kept[1])}, sum ? axes_[*sum].size : 1};
    if (matrices_[Out].tensor.is_cpu())
      launch_on_cpu(problem);
    else
      launch_on_gpu(problem);
  }

  // The operands and the epilogue of a launch.
  struct Problem {
    const ArrayArgument &x, &y;
    const std::optional<ArrayArgument>& other;
    const detail::Launched<EpilogueOf<Array, Tile>>& epilogue;
    std::array<int64_t, 2> batches;
    int64_t summed;

    int64_t all_batches() const { return batches[0] * batches[1]; }
  };

  void launch_on_cpu(const Problem& of) {
    const bool two = epilogue_.second == Second::factor;
    const int64_t packed_element = std::max<int64_t>(matrices_[X].tensor.element_size(), 4),
                  summands = epilogue_.second == Second::summand ? 2 : 1;
    const ProductShape shape{.m = m_, .n = n_, .k = k_, .batches = of.all_batches(), .two = two};
    const TileSize tile =
        cpu_tile_size(shape, summands * m_ * k_ * packed_element, matrices_[Y].column == 1, launch_threads());
    product.launch({ceil_div(m_, tile.m), ceil_div(n_, tile.n), of.all_batches()},
                   {.x = of.x,
                    .y = of.y,
                    .other = of.other,
                    .epilogue = of.epilogue,
                    .part_tiles = std::nullopt,
                    .batched = true,
                    .groups = false,
                    .rounded = false,
                    .paired = false,
                    .second = epilogue_.second,
                    .apart = two,
                    .bm = tile.m,
                    .bn = tile.n,
                    .bk = tile.k,
                    .together = 1,
                    .chain = 0});
  }

  void launch_on_gpu(const Problem& of) {
    const bool adds = epilogue_.second == Second::summand, two = epilogue_.second == Second::factor;
    const bool groups = (of.summed == 1 || adds) && by_groups(X, of.x) && by_groups(Y, of.y) &&
                        (!of.other || by_groups(Other, *of.other));
    const int64_t batches = of.all_batches();
    const at::ScalarType type = matrices_[X].tensor.scalar_type();
    const ProductShape shape{.m = m_,
                             .n = n_,
                             .k = k_,
                             .batches = batches,
                             .two = two || (groups && adds),
                             .summed = of.summed,
                             .element = rounded_ ? 4 : 2,
                             .rounded = rounded_};
    // A part of two products that are multiplied would have two sums: these are not divided.
    const int64_t sums_bytes = m_ * n_ * batches * (type == at::kDouble ? 8 : 4),
                  most_parts = two ? 1
                                   : std::clamp<int64_t>(tuning::part_sum_bytes / sums_bytes, 1,
                                                         tuning::most_product_parts);
    if (!adds)
      if (const auto thin =
              thin_division(shape, type, {.along_k = matrices_[Y].row == 1, .vectors = has_tensor_map(of.y)},
                            groups && !few_columns_, most_parts)) {
        const auto& [division, rows, at_once] = *thin;
        in_parts(of, division, [&](const auto& epilogue, const std::optional<int>& part_tiles) {
          launch_thin({ceil_div(n_, division.tile.n), 1, batches * division.parts}, {.x = of.x,
                                                                                     .y = of.y,
                                                                                     .other = of.other,
                                                                                     .epilogue = epilogue,
                                                                                     .part_tiles = part_tiles,
                                                                                     .rows = rows,
                                                                                     .bn = division.tile.n,
                                                                                     .bk = division.tile.k,
                                                                                     .at_once = at_once});
        });
        return;
      }
    const Division division =
        groups ? group_division(shape, most_parts) : gpu_division(shape, type, most_parts);
    const TileSize& tile = division.tile;
    // Pairs are of persistent kernels, whose loops are equally long in all blocks: those of batches are not
    // known to be. And a block without rows of its own would load what the other one stores.
    const bool paired = groups && batches == 1 && !epilogue_.loads_results() &&
                        pays_in_pairs(shape, division, straddles_lines(X) || straddles_lines(Y));
    const int64_t most_chain = type == at::kFloat && !rounded_ ? tuning::float32_chain : tuning::chain_length;
    in_parts(of, division, [&](const auto& epilogue, const std::optional<int>& part_tiles) {
      const int64_t row_tiles = ceil_div(m_, tile.m), blocks = paired ? 2 : 1;
      product.launch({ceil_div(row_tiles, blocks) * ceil_div(n_, tile.n), blocks, batches * division.parts},
                     {.x = of.x,
                      .y = of.y,
                      .other = of.other,
                      .epilogue = epilogue,
                      .part_tiles = part_tiles,
                      .batched = batches > 1 || !groups,
                      .groups = groups,
                      .rounded = rounded_,
                      .paired = paired,
                      .second = epilogue_.second,
                      .apart = false,
                      .bm = tile.m,
                      .bn = tile.n,
                      .bk = tile.k,
                      .together = 16,
                      .chain = division.chained ? static_cast<int>(most_chain / tile.k) : 0});
    });
  }

  // Returns true if rows of the matrix, or columns if these are adjacent, begin in the middle of lines of the
  // cache.
  bool straddles_lines(size_t t) const {
    const Matrix& matrix = matrices_[t];
    return (matrix.row == 1 ? matrix.column : matrix.row) * matrix.tensor.element_size() %
               tuning::line_bytes !=
           0;
  }

  // Calls launch(epilogue, part_tiles): with the product's own epilogue, or for each part with one that only
  // stores its sums, which another kernel adds then.
  template <class F>
  void in_parts(const Problem& of, const Division& division, const F& launch) {
    if (division.parts == 1) return launch(of.epilogue, std::nullopt);
    const at::Tensor sums = sums_of_parts(matrices_[Out].tensor, matrices_[X].tensor.scalar_type(),
                                          division.parts, of.batches, m_, n_);
    launch(detail::Launched<EpilogueOf<Array, Tile>>{.bias = std::nullopt,
                                                     .residual = std::nullopt,
                                                     .pre = std::nullopt,
                                                     .other_pre = std::nullopt,
                                                     .out = sums,
                                                     .alpha = 1.0,
                                                     .activation = Activation::none,
                                                     .scaled = false,
                                                     .accumulate = false,
                                                     .expression = std::nullopt},
           std::optional<int>(static_cast<int>(division.part_tiles)));
    add_parts(sums, division.parts, of.batches, of.epilogue);
  }

  int64_t m_, n_, k_;
  bool rounded_;              // to tf32
  bool few_columns_ = false;  // the product is transposed, because it has few of them
  const Epilogue& epilogue_;
  c10::SmallVector<Axis, 6> axes_;
  c10::SmallVector<Matrix, usual> matrices_;
};

}  // namespace

void multiply(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const Epilogue& epilogue) {
  if (out.numel() == 0) return;
  if (is_recorded()) return record_product(x, y, out, epilogue);
  Product(x, y, out, epilogue).run();
}

}  // namespace tile
