// Passes of a reduction. Each reduces axes that are contiguous in memory, and splits them into several parts
// if rows are few and long.
#include "expr/reduce_axes.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "dsl/tracer.h"

namespace tile {
namespace {

struct Pass {
  bool first, last;
  bool transposed, on_gpu;
  int rows, columns;  // of a tile
};

RowTile pass_tile(const Rows& rows, bool at_once) {
  const int64_t columns = rows.columns();
  if (rows.on_gpu()) {
    if (rows.transposed()) return {128, 32, RowFit::looped};
    if (columns <= 64) return {32, 64, RowFit::looped};
    return columns <= 1024 ? RowTile{4, 512, RowFit::looped} : RowTile{1, 2048, RowFit::looped};
  }
  // The accumulators stay in the L1 cache.
  if (rows.transposed()) return at_once ? RowTile{512, 64, RowFit::looped} : RowTile{512, 8, RowFit::looped};
  if (columns <= 64) return {at_once ? 256 : 64, 64, RowFit::looped};
  if (!at_once) return {8, 512, RowFit::looped};
  return columns <= 1024 ? RowTile{16, 1024, RowFit::looped} : RowTile{4, 4096, RowFit::looped};
}

// Splits so that all cores have blocks, each with several tiles.
int64_t split_count(const Rows& rows, const RowTile& tile) {
  const int64_t blocks = ceil_div(rows.rows(), tile.rows) * rows.slices() * rows.count();
  const int64_t tiles = ceil_div(rows.columns(), tile.columns);
  const int64_t wanted = rows.on_gpu() ? 512 : 32, least = rows.on_gpu() ? 4 : 8;
  return std::clamp<int64_t>(wanted / std::max<int64_t>(blocks, 1), 1, std::max<int64_t>(1, tiles / least));
}

bool adds_up(const ReductionBody& body) {
  return body.kind == Reduction::Kind::sum || body.kind == Reduction::Kind::prod;
}

std::vector<Tile> added_up(const ReductionBody& body, const std::vector<Tile>& tiles, int axis) {
  std::vector<Tile> totals;
  for (const Tile& each : tiles)
    totals.push_back(body.kind == Reduction::Kind::sum ? each.sum(axis, true) : each.prod(axis, true));
  return totals;
}

// On a CPU, halves are combined until one element is left, with all lanes at once. On a GPU, the threads
// exchange their values.
std::vector<Tile> totals_of(const ReductionBody& body, std::vector<Tile> tiles, int axis, bool on_gpu) {
  if (adds_up(body)) return added_up(body, tiles, axis);
  if (on_gpu) {
    const std::vector<Operand> operands(tiles.begin(), tiles.end());
    return reduce(
        operands, axis, [&](std::vector<Tile> a, std::vector<Tile> b) { return combined(body, a, b); }, true);
  }
  for (Shape shape = tiles[0].shape(); shape[static_cast<size_t>(axis)] > 1;) {
    shape[static_cast<size_t>(axis)] /= 2;
    std::vector<Tile> low, high;
    for (const Tile& each : tiles) {
      low.push_back(extract(each, {0, 0}, shape));
      high.push_back(axis ? extract(each, {0, 1}, shape) : extract(each, {1, 0}, shape));
    }
    tiles = combined(body, low, high);
  }
  return tiles;
}

void trace_pass(const ReductionBody& body, const std::vector<Array>& arrays, size_t elements,
                const Pass& pass, const Tile& steps, const Tile& count) {
  const int axis = pass.transposed ? 0 : 1;
  const Shape shape = pass.transposed ? Shape{pass.columns, pass.rows} : Shape{pass.rows, pass.columns};
  const Shape narrow = pass.transposed ? Shape{1, pass.rows} : Shape{pass.rows, 1};
  // A CPU sums each tile while it is in registers. On a GPU each thread sums its own elements first.
  const bool at_once = adds_up(body) && !pass.on_gpu;
  std::vector<RowView> views;
  for (size_t k = 0; k < elements; ++k) views.emplace_back(arrays[k], bid(2), pass.rows, pass.columns, axis);
  std::vector<Tile> accumulators;
  for (size_t k = 0; k < body.accumulators.size(); ++k)
    accumulators.push_back(identity_tile(body, k, at_once ? narrow : shape));
  const Tile extent = arrays[0].dim(2), row = bid(1);
  const auto add_tile = [&](const Tile& k, bool masked) {
    std::vector<Tile> loaded;
    for (const RowView& view : views) loaded.push_back(view.load(row, k));
    std::vector<Tile> values = pass.first ? body.map(loaded) : loaded;
    if (masked) {
      Tile inside = (arange(pass.columns) + k * pass.columns < extent).expand_dims(pass.transposed ? 1 : 0);
      inside = inside.broadcast_to(shape);
      for (size_t j = 0; j < values.size(); ++j)
        values[j] = where(inside, values[j], identity_tile(body, j, shape));
    }
    if (at_once) values = added_up(body, values, axis);
    const std::vector<Tile> together = combined(body, accumulators, values);
    for (size_t j = 0; j < accumulators.size(); ++j) accumulators[j] = together[j];
  };
  const Tile low = bid(0) * steps, high = min(low + steps, cdiv(extent, pass.columns));
  const Tile whole = min(high, extent / pass.columns);  // tiles without a mask
  for (Tile k : range(low, whole)) add_tile(k, false);
  for (Tile k : range(max(low, whole), high)) add_tile(k, true);
  const std::vector<Tile> totals = at_once ? accumulators : totals_of(body, accumulators, axis, pass.on_gpu);
  std::vector<Tile> stored = totals;
  if (pass.last) {
    stored = body.finish(totals, count);
    stored.insert(stored.end(), totals.begin(), totals.end());
  }
  for (size_t k = elements; k < arrays.size(); ++k) {
    const RowView view(arrays[k], bid(2), pass.rows, 1, axis);
    view.store(row, bid(0), stored[k - elements].broadcast_to(narrow));
  }
}

void launch_pass(const ReductionLaunch& launch, Rows& rows, size_t elements, size_t count, const Pass& pass,
                 int64_t splits, const std::vector<int64_t>& part_strides, int64_t number) {
  const int64_t tiles = ceil_div(rows.columns(), pass.columns);
  const int64_t steps = ceil_div(tiles, splits);
  const ScalarArgument step_argument = scalar_argument(static_cast<int>(steps));
  const ScalarArgument count_argument = scalar_argument(static_cast<int64_t>(number));
  const Grid grid{splits, ceil_div(rows.rows(), pass.rows), rows.slices()};
  rows.each([&](int64_t) {
    c10::SmallVector<ArrayArgument, 6> views;
    for (size_t k = 0; k < count; ++k) {
      views.push_back(rows.view(k));
      if (k >= elements && splits > 1) {
        views.back().sizes[2] = splits;
        views.back().strides[2] = part_strides[k - elements];
        views.back().scalars = false;
      }
    }
    LaunchKey key;
    std::vector<ArgumentRef> passed;
    for (const ArrayArgument& view : views) {
      detail::key_of_array(key, view);
      passed.emplace_back(view);
    }
    key.add(static_cast<uint64_t>(pass.rows) << 32 | static_cast<uint64_t>(pass.columns));
    key.add(static_cast<uint64_t>(pass.first) | static_cast<uint64_t>(pass.last) << 1 |
            static_cast<uint64_t>(pass.transposed) << 2 | static_cast<uint64_t>(elements) << 3);
    launch.key(key);
    passed.emplace_back(step_argument);
    passed.emplace_back(count_argument);
    launch.pass(passed);
    launch.kernel.launch_call(grid, key, passed, [&](Tracer& tracer) {
      std::vector<Array> arrays;
      for (const ArrayArgument& view : views) arrays.emplace_back(detail::add_array_parameter(tracer, view));
      const Tile steps_tile(detail::add_scalar_parameter(tracer, DType::i32));
      const Tile number_tile(detail::add_scalar_parameter(tracer, DType::i64));
      launch.body.begin(tracer);
      trace_pass(launch.body, arrays, elements, pass, steps_tile, number_tile);
    });
  });
}

int64_t product(const ArrayArgument& array, uint32_t axes) {
  int64_t count = 1;
  for (int i = 0; i < array.rank; ++i)
    if (axes >> i & 1) count *= array.sizes[i];
  return count;
}

// Returns the axes of `reduced`, from the last on, that are contiguous as one axis in all arrays.
uint32_t flat_axes(const ElementArrays& arrays, uint32_t reduced) {
  uint32_t chosen = 0;
  for (int i = arrays.front().rank; i-- > 0;)
    if (const uint32_t more = chosen | 1u << i;
        reduced >> i & 1 && product(arrays.front(), more) <= max_extent && Rows(arrays, more).flat())
      chosen = more;
  return chosen;
}

// Returns the first of these axes that is too long for one kernel, or -1.
int long_axis(const ArrayArgument& array, uint32_t axes) {
  for (int i = 0; i < array.rank; ++i)
    if (axes >> i & 1 && array.sizes[static_cast<size_t>(i)] > max_extent) return i;
  return -1;
}
ElementArrays narrowed(ElementArrays arrays, int axis, int64_t from, int64_t size) {
  for (ArrayArgument& array : arrays) array = tile::narrowed(array, axis, from, size);
  return arrays;
}

ElementArrays joined(const ElementArrays& a, const ElementArrays& b, const ElementArrays& c = {}) {
  ElementArrays all = a;
  all.append(b.begin(), b.end());
  all.append(c.begin(), c.end());
  return all;
}

}  // namespace

Tile identity_tile(const ReductionBody& body, size_t k, const Shape& shape) {
  const DType dtype = body.accumulators[k];
  const bool low = body.kind == Reduction::Kind::max;
  double value = body.kind == Reduction::Kind::sum    ? 0
                 : body.kind == Reduction::Kind::prod ? 1
                 : body.kind == Reduction::Kind::own  ? body.identity[k]
                 : low                                ? -inf
                                                      : inf;
  if (body.kind != Reduction::Kind::max && body.kind != Reduction::Kind::min)
    return full(shape, value, dtype);
  if (is_floating(dtype)) return full(shape, value, dtype);
  if (dtype == DType::boolean) return full(shape, low ? 0 : 1, dtype);
  // The largest or smallest value of the dtype, from its bits as an unsigned number.
  const Tile zero = full(shape, 0, dtype);
  if (is_unsigned(dtype)) return low ? zero : ~zero;
  const Tile top = full(shape, 1, dtype) << (info(dtype).bits - 1);
  return low ? top : ~top;
}

namespace {

Tile combined_two(Reduction::Kind kind, const Tile& a, const Tile& b) {
  const bool floating = is_floating(a.dtype()), boolean = a.dtype() == DType::boolean;
  switch (kind) {
    case Reduction::Kind::sum:
      return a + b;
    case Reduction::Kind::prod:
      return a * b;
    case Reduction::Kind::max:
      return floating ? maximum(a, b, propagate_nan) : boolean ? a | b : maximum(a, b);
    default:
      return floating ? minimum(a, b, propagate_nan) : boolean ? a & b : minimum(a, b);
  }
}

}  // namespace

std::vector<Tile> combined(const ReductionBody& body, const std::vector<Tile>& a,
                           const std::vector<Tile>& b) {
  if (body.kind == Reduction::Kind::own) return body.combine(a, b);
  std::vector<Tile> made;
  for (size_t k = 0; k < a.size(); ++k) made.push_back(combined_two(body.kind, a[k], b[k]));
  return made;
}

void reduce_axes(const ReductionLaunch& launch, const ElementArrays& elements, uint32_t reduced,
                 const ElementArrays& results, const ElementArrays& totals, const at::Tensor& like) {
  constexpr int64_t chunk = extent_of_chunks;
  if (const int axis = long_axis(elements.front(), ~reduced); axis >= 0) {
    const int64_t size = elements.front().sizes[static_cast<size_t>(axis)];
    for (int64_t from = 0, count; from < size; from += count) {
      count = std::min(chunk, size - from);
      const auto part = [&](const ElementArrays& arrays) { return narrowed(arrays, axis, from, count); };
      reduce_axes(launch, part(elements), reduced, part(results), part(totals), like);
    }
    return;
  }
  ElementArrays now = elements;
  const int64_t number = product(elements.front(), reduced);
  std::vector<at::Tensor> kept;  // the partial results, kept until the pass that reads them is launched
  for (bool first = true;; first = false) {
    // The chunks of a long axis are reduced one after another, and the next pass reduces their results.
    if (const int axis = long_axis(now.front(), reduced); axis >= 0) {
      const auto at = static_cast<size_t>(axis);
      const int64_t size = now.front().sizes[at], chunks = ceil_div(size, chunk);
      const auto part_of = [&](int64_t i) {
        return narrowed(now, axis, i * chunk, std::min(chunk, size - i * chunk));
      };
      const Rows first_chunk(part_of(0), 1u << axis);
      const RowTile tile = pass_tile(first_chunk, adds_up(launch.body));
      const int64_t splits = split_count(first_chunk, tile);
      std::vector<int64_t> shape(now.front().sizes.begin(), now.front().sizes.begin() + now.front().rank);
      shape[at] = chunks * splits;
      std::vector<at::Tensor> made;
      ElementArrays whole;
      std::vector<int64_t> strides;
      for (const DType dtype : launch.body.accumulators) {
        made.push_back(at::empty(shape, like.options().dtype(to_scalar_type(dtype))));
        whole.push_back(at::to_array_argument(made.back()));
        strides.push_back(made.back().stride(axis));
      }
      for (int64_t i = 0; i < chunks; ++i) {
        const ElementArrays all = joined(part_of(i), narrowed(whole, axis, i * splits, 1));
        Rows rows(all, 1u << axis);
        launch_pass(launch, rows, now.size(), all.size(),
                    {first, false, first_chunk.transposed(), rows.on_gpu(), tile.rows, tile.columns}, splits,
                    strides, number);
      }
      kept = std::move(made);
      now = std::move(whole);
      continue;
    }
    const ElementArrays ends = joined(results, totals);
    const uint32_t axes = flat_axes(now, reduced);
    Rows alone(now, axes);
    const RowTile tile = pass_tile(alone, adds_up(launch.body));
    const int64_t splits = split_count(alone, tile);
    const bool last = axes == reduced && splits == 1;
    const Pass pass{first, last, alone.transposed(), alone.on_gpu(), tile.rows, tile.columns};
    if (last) {
      const ElementArrays all = joined(now, ends);
      Rows rows(all, axes);
      return launch_pass(launch, rows, now.size(), all.size(), pass, 1, {}, number);
    }
    // The remaining shape has extent 1 at the axes of this pass, except that one of them holds the parts.
    std::vector<int64_t> shape(now.front().sizes.begin(), now.front().sizes.begin() + now.front().rank);
    int part_axis = 0;
    for (int i = 0; i < now.front().rank; ++i)
      if (axes >> i & 1) shape[static_cast<size_t>(i)] = 1, part_axis = i;
    shape[static_cast<size_t>(part_axis)] = splits;
    ElementArrays parts, whole;
    std::vector<int64_t> strides;
    std::vector<at::Tensor> made;
    for (const DType dtype : launch.body.accumulators) {
      made.push_back(at::empty(shape, like.options().dtype(to_scalar_type(dtype))));
      whole.push_back(at::to_array_argument(made.back()));
      parts.push_back(whole.back());
      parts.back().sizes[part_axis] = 1;
      strides.push_back(made.back().stride(part_axis));
    }
    const ElementArrays all = joined(now, parts);
    Rows rows(all, axes);
    launch_pass(launch, rows, now.size(), all.size(), pass, splits, strides, number);
    kept = std::move(made);
    now = std::move(whole);
    reduced = (reduced & ~axes) | (splits > 1 ? 1u << part_axis : 0);
    if (!reduced) reduced = 1u << part_axis;  // the last pass reduces one element
  }
}

}  // namespace tile
