// Sets up a fused loop's run and executes the chunks that are inside every array.
#include "cpu/exec/fused_loop_run.h"

#include <algorithm>

namespace tile::cpu {
namespace {

// A chunk's data fits the first-level cache. Shorter chunks would be dominated by call overhead.
constexpr int64_t cache_bytes = 24576, least_lanes = 512, most_lanes = 8192;
// Chunks with transposed inputs fit the second-level cache, and their rows are whole squares.
constexpr int64_t transposed_lanes = 16384, square = 16;
// Reductions over rows use more rows and fewer columns, so that the accumulators stay in the first-level
// cache.
constexpr int64_t most_line = 1024;

bool everywhere_inside(const FusedLoopSpace::Cursor& cursor, const FusedLoopSpace& space) {
  bool all = !cursor.outside;
  for (int d = 0; d < space.dims; ++d) all &= cursor.first[d] <= 0 && cursor.valid[d] >= space.extent[d];
  return all;
}

}  // namespace

FusedLoopRun::FusedLoopRun(const FusedLoopNode& node, Scratch* memory)
    : node_(node), fused_loop_(node.fused_loop), memory_(memory ? *memory : own_), space_(memory_, !memory) {
  if (!memory) own_.reserve(node.run_bytes());
}

bool FusedLoopRun::prepare(Frame& frame) {
  if (&memory_ == &own_) own_.release(0);
  if (!space_.prepare(fused_loop_, frame)) return false;
  rows_dim_ = space_.dims - 2;
  cols_dim_ = space_.dims - 1;
  addresses_ = memory_.take_array<ValueAddress>(values());
  at_ = memory_.take_array<Chunked>(values());
  direct_ = memory_.take_array<int>(values());
  calls_ = memory_.take_array<Call>(fused_loop_.steps.size());
  converted_ = memory_.take_array<int>(input_count());
  bounded_ = memory_.take_array<int>(input_count());
  prefetch_ = memory_.take_array<Prefetch>(fused_loop_.prefetch.size());
  bounded_stores_ = memory_.take_array<int>(fused_loop_.stores.size());
  find_addresses();
  find_edges();
  find_prefetch(frame);
  assemble();
  size_chunks();
  allocate_buffers();
  return true;
}

bool FusedLoopRun::in_place(size_t input) const {
  const Cursor& from = space_.inputs[input];
  return from.lanes && (from.stride[cols_dim_] == element(input) || !varies(input, cols_dim_));
}

// Finds the values that need no buffer.
void FusedLoopRun::find_addresses() {
  for (size_t v = 0; v < values(); ++v) {
    addresses_[v] = {};
    direct_[v] = -1;
  }
  converted_count_ = bounded_count_ = bounded_store_count_ = 0;
  for (size_t v = 0; v < input_count(); ++v) {
    const Cursor& from = space_.inputs[v];
    if (!everywhere_inside(from, space_)) bounded_[bounded_count_++] = static_cast<int>(v);
    if (in_place(v))
      addresses_[v] = {&from, 0, varies(v, rows_dim_) ? from.stride[rows_dim_] : 0};
    else
      converted_[converted_count_++] = static_cast<int>(v);
  }
  for (size_t k = 0; k < fused_loop_.outputs.size(); ++k) {
    auto v = static_cast<size_t>(fused_loop_.outputs[k].value);
    if (v >= input_count() && !addresses_[v].moving && !fused_loop_.outputs[k].elements)
      addresses_[v] = {&space_.outputs[k], 0, space_.outputs[k].stride[rows_dim_]};
  }
  // A value that only one store writes unconverted can be computed in place, unless other values are computed
  // from the old contents.
  const auto is_read = [&](const Cursor& to) {
    return std::any_of(space_.inputs, space_.inputs + input_count(),
                       [&](const Cursor& from) { return from.data == to.data; });
  };
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k) {
    const Cursor& to = space_.stores[k];
    auto v = static_cast<size_t>(fused_loop_.stores[k].value);
    if (!everywhere_inside(to, space_)) bounded_stores_[bounded_store_count_++] = static_cast<int>(k);
    const bool fits = v >= input_count() && to.lanes && !to.streams && !addresses_[v].moving &&
                      varies(v, cols_dim_) && (varies(v, rows_dim_) || space_.extent[rows_dim_] == 1) &&
                      to.stride[cols_dim_] == element(v);
    if (!fits || (fused_loop_.stores.size() > 1 && is_read(to))) continue;
    direct_[v] = static_cast<int>(k);
    addresses_[v] = {&to, 0, to.stride[rows_dim_]};
  }
  for (size_t i = 0; i < fused_loop_.steps.size(); ++i) {
    const FusedLoopStep& step = fused_loop_.steps[i];
    auto out = static_cast<size_t>(step.out);
    int repeats = 0;
    for (int k = 0; k < step.arity; ++k)
      if (varies(out, cols_dim_) && !varies(static_cast<size_t>(step.in[k]), cols_dim_)) repeats |= 1 << k;
    calls_[i] = {step.variants[repeats], step.arity, {}, step.out};
    std::copy(step.in, step.in + most_operands, calls_[i].in);
  }
  no_repeats_ = true;
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k)
    for (int d = 0; d < rows_dim_; ++d)
      no_repeats_ &=
          space_.reduces_along(fused_loop_.reductions[k], d) && space_.reductions[k].weight[d] == 1;
}

// Chunks end at an array's edge and before the first weighted element, so that all but the last are regular.
void FusedLoopRun::find_edges() {
  edge_ = space_.extent[cols_dim_];
  row_edge_ = space_.extent[rows_dim_];
  auto limit = [&](const Cursor& cursor) {
    if (cursor.valid[cols_dim_] > 0) edge_ = std::min(edge_, cursor.valid[cols_dim_]);
    if (cursor.valid[rows_dim_] > 0) row_edge_ = std::min(row_edge_, cursor.valid[rows_dim_]);
  };
  for (size_t v = 0; v < input_count(); ++v) limit(space_.inputs[v]);
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k) limit(space_.stores[k]);
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k) {
    const auto& into = space_.reductions[k];
    if (into.weight[cols_dim_] > 1 && into.last[cols_dim_] > 0) edge_ = std::min(edge_, into.last[cols_dim_]);
    if (into.weight[rows_dim_] > 1 && into.last[rows_dim_] > 0)
      row_edge_ = std::min(row_edge_, into.last[rows_dim_]);
  }
}

// Returns true if a reduction gives a weight to that element or to a row or column before it.
bool FusedLoopRun::weighs(const int64_t* outer, int64_t row, int64_t column) const {
  const auto heavy = [](const FusedLoopSpace::Accumulator& into, int dim, int64_t end) {
    return into.weight[dim] > 1 && end > into.last[dim];
  };
  return std::any_of(space_.reductions, space_.reductions + fused_loop_.reductions.size(),
                     [&](const auto& into) {
                       for (int d = 0; d < rows_dim_; ++d)
                         if (heavy(into, d, outer[d] + 1)) return true;
                       return heavy(into, rows_dim_, row) || heavy(into, cols_dim_, column);
                     });
}

void FusedLoopRun::size_chunks() {
  int64_t bytes = 0;
  uint64_t counted = 0;
  for (size_t v = 0; v < values(); ++v) {
    if (!varies(v, cols_dim_)) continue;
    const int buffer = fused_loop_.buffers[v];
    if (!addresses_[v].moving && buffer < 64) {  // shared buffers count once
      if (counted >> buffer & 1) continue;
      counted |= uint64_t{1} << buffer;
    }
    bytes += element(v);
  }
  bool transposes = false;
  const auto look = [&](const Cursor& cursor, bool columns) {
    transposes |=
        columns && cursor.stride[rows_dim_] > 0 && cursor.stride[cols_dim_] > cursor.stride[rows_dim_];
  };
  for (size_t v = 0; v < input_count(); ++v) look(space_.inputs[v], varies(v, cols_dim_));
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k) look(space_.stores[k], true);
  int64_t lanes =
      bytes && !code_ ? std::clamp(cache_bytes / bytes / 64 * 64, least_lanes, most_lanes) : most_lanes;
  if (transposes && code_) lanes = transposed_lanes;
  // Divide the columns up to the edge evenly.
  int64_t most = lanes;  // columns
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k)
    if (lines_apart(k)) most = std::min<int64_t>(most, most_line);
  const int64_t span = std::max<int64_t>(edge_, 1), chunk_count = (span + most - 1) / most;
  cols_ = std::min(((span + chunk_count - 1) / chunk_count + 63) / 64 * 64, space_.extent[cols_dim_]);
  int64_t high = std::max<int64_t>(lanes / std::max<int64_t>(cols_, 1), 1);
  if (transposes) high = (high + square - 1) / square * square;
  rows_ = std::min(high, std::max<int64_t>(space_.extent[rows_dim_], 1));
}

void FusedLoopRun::allocate_buffers() {
  auto* sizes = memory_.take_array<size_t>(static_cast<size_t>(fused_loop_.buffer_count));
  std::fill(sizes, sizes + fused_loop_.buffer_count, 0);
  auto line = [&](size_t v) {
    const bool apart = v < input_count() && transposed(v);  // rows do not compete for cache sets
    return (varies(v, cols_dim_) ? cols_ : 1) * element(v) + (apart ? 64 : 0);
  };
  for (size_t v = 0; v < values(); ++v) {
    size_t& size = sizes[fused_loop_.buffers[v]];
    // A value with one lane per row needs as many rows as the highest chunk has.
    const int64_t high = varies(v, cols_dim_) ? rows_ : std::max(rows_, edge_rows());
    size = std::max(size, static_cast<size_t>((varies(v, rows_dim_) ? high : 1) * line(v)));
  }
  bytes_ = 0;
  auto allocate = [&](size_t size) {
    const size_t at = bytes_;
    bytes_ += (size + 63) / 64 * 64 + 192;  // offset, so that buffers do not compete for cache sets
    return at;
  };
  for (int b = 0; b < fused_loop_.buffer_count; ++b) sizes[b] = allocate(sizes[b]);
  for (size_t v = 0; v < values(); ++v) {
    addresses_[v].offset = sizes[fused_loop_.buffers[v]];
    if (!addresses_[v].moving) addresses_[v].row = varies(v, rows_dim_) ? line(v) : 0;
  }
  const auto chunk = static_cast<size_t>(rows_ * cols_ * 8);
  expanded_offset_ = allocate(2 * chunk);
  lines_offset_ = allocate(code_ ? (input_count() + fused_loop_.reductions.size() + 1) * line_bytes() : 0);
}

void FusedLoopRun::operator()(Frame& frame) {
  base_ = frame.scratch.take(bytes_);
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k) begin(k);
  for (int i = 0; i < prefetch_count_; ++i)
    prefetch_[i].at = frame.tiles[static_cast<size_t>(prefetch_[i].tile)].data + prefetch_[i].distance;
  int64_t outer[max_rank] = {}, iterations = 1;
  for (int d = 0; d < rows_dim_; ++d) iterations *= space_.extent[d];
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    for (size_t v = 0; v < input_count(); ++v) enter(space_.inputs[v], outer);
    for (size_t k = 0; k < fused_loop_.outputs.size(); ++k) enter(space_.outputs[k], outer);
    for (size_t k = 0; k < fused_loop_.stores.size(); ++k) enter(space_.stores[k], outer);
    for (size_t k = 0; k < fused_loop_.reductions.size(); ++k) enter(space_.reductions[k].cursor, outer);
    line_ = cols_;
    chunks(outer, 0, edge_, rows_);
    if (edge_line() > 0) {
      line_ = edge_line();
      chunks(outer, edge_, space_.extent[cols_dim_], edge_rows());
    }
    for (int d = rows_dim_ - 1; d >= 0 && ++outer[d] == space_.extent[d]; --d) outer[d] = 0;
  }
  finish(frame);
}

void FusedLoopRun::chunks(const int64_t* outer, int64_t low, int64_t high, int64_t most_rows) {
  const int64_t all_rows = space_.extent[rows_dim_];
  for (int64_t r = 0, rows; r < all_rows; r += rows) {
    rows = std::min(most_rows, (r < row_edge_ ? row_edge_ : all_rows) - r);
    for (int64_t c = low; c < high; c += line_) {
      const int64_t cols = std::min(line_, high - c);
      chunk(outer, r, rows, c, cols);
    }
  }
}

// Computes a cursor's address at the first row and column, for one index of the outer dimensions.
void FusedLoopRun::enter(Cursor& cursor, const int64_t* outer) const {
  cursor.line = cursor.data;
  cursor.within = !cursor.outside;
  for (int d = 0; d < rows_dim_; ++d) {
    cursor.within &= outer[d] >= cursor.first[d] && outer[d] < cursor.valid[d];
    cursor.line += outer[d] * cursor.stride[d];
  }
}

FusedLoopRun::Part FusedLoopRun::part(const Cursor& cursor, int64_t r, int64_t rows, int64_t c,
                                      int64_t cols) const {
  if (!cursor.within) return {};
  Part part;
  const auto limit = [&](int dim, int64_t start, int64_t count, int64_t& low, int64_t& high) {
    low = std::clamp<int64_t>(cursor.first[dim] - start, 0, count);
    high = std::clamp<int64_t>(cursor.valid[dim] - start, low, count);
    return high - low == count;
  };
  const bool tall = limit(rows_dim_, r, rows, part.top, part.bottom);
  part.complete = limit(cols_dim_, c, cols, part.left, part.right) && tall;
  return part;
}

bool FusedLoopRun::inside(int64_t r, int64_t rows, int64_t c, int64_t cols) const {
  for (int i = 0; i < bounded_count_; ++i)
    if (!part(space_.inputs[bounded_[i]], r, rows, c, cols).complete) return false;
  for (int i = 0; i < bounded_store_count_; ++i)
    if (!part(space_.stores[bounded_stores_[i]], r, rows, c, cols).complete) return false;
  return true;
}

void FusedLoopRun::locate_inside(int64_t r, int64_t rows, int64_t c, int64_t cols) {
  for (size_t v = 0; v < values(); ++v) {
    const ValueAddress& address = addresses_[v];
    at_[v] = {address.moving ? locate(*address.moving, r, c) : base_ + address.offset, address.row};
  }
  for (int i = 0; i < converted_count_; ++i) {
    auto v = static_cast<size_t>(converted_[i]);
    const Cursor& from = space_.inputs[v];
    mover(v).load(locate(from, r, c), from.stride[rows_dim_], from.stride[cols_dim_], at_[v].data, at_[v].row,
                  varies(v, rows_dim_) ? rows : 1, varies(v, cols_dim_) ? cols : 1);
  }
}

void FusedLoopRun::chunk(const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  if (const int64_t done = code_ ? run_code(outer, r, rows, c, cols) : 0) {
    c += done;
    cols -= done;
    if (cols == 0) return;
  }
  if (inside(r, rows, c, cols))
    locate_inside(r, rows, c, cols);
  else
    locate_at_edge(r, rows, c, cols);
  for (size_t i = 0; i < fused_loop_.steps.size(); ++i) call(calls_[i], rows, cols);
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k) write(k, r, rows, c, cols);
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k) accumulate(k, outer, r, rows, c, cols);
  for (size_t k = 0; k < fused_loop_.outputs.size(); ++k) copy_output(k, r, rows, c, cols);
}

void FusedLoopRun::call(const Call& call, int64_t rows, int64_t cols) const {
  auto out = static_cast<size_t>(call.out);
  Chunk chunk;
  chunk.rows = varies(out, rows_dim_) ? rows : 1;
  chunk.cols = varies(out, cols_dim_) ? cols : 1;
  chunk.out = at_[out].data;
  chunk.out_row = at_[out].row;
  for (int k = 0; k < call.arity; ++k) {
    const Chunked& from = at_[call.in[k]];
    chunk.in[k] = from.data;
    chunk.in_row[k] = from.row;
  }
  call.function(chunk);
}

// Returns a chunk with all rows and columns stored, for consumers that do not support repeats.
FusedLoopRun::Chunked FusedLoopRun::expand(size_t v, int64_t rows, int64_t cols, char* to) const {
  if (varies(v, cols_dim_) || cols == 1) return at_[v];
  const int64_t row = cols * element(v);
  cast_row(fused_loop_.lanes[v], fused_loop_.lanes[v])
      .variants[1]({varies(v, rows_dim_) ? rows : 1, cols, to, row, {at_[v].data}, {at_[v].row}});
  return {to, varies(v, rows_dim_) ? row : 0};
}

void FusedLoopRun::put(const Cursor& to, char* first, const char* lanes, int64_t lane_row, int64_t rows,
                       int64_t cols) const {
  const int64_t bytes = info(to.dtype).bytes, row = to.stride[rows_dim_], column = to.stride[cols_dim_];
  if (!to.streams || column != bytes || cols * bytes < 256) {
    move_row(to.dtype).store(first, row, column, lanes, lane_row, rows, cols);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) move_row(to.dtype).stream(first + i * row, lanes + i * lane_row, cols);
}

// Outputs of elements are converted. Outputs that are inputs, or a value's second output, are copied. The
// others were computed in place.
void FusedLoopRun::copy_output(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  const Cursor& to = space_.outputs[k];
  auto v = static_cast<size_t>(fused_loop_.outputs[k].value);
  char* data = locate(to, r, c);
  if (!varies(v, rows_dim_)) rows = 1;
  if (!varies(v, cols_dim_)) cols = 1;
  if (fused_loop_.outputs[k].elements) return put(to, data, at_[v].data, at_[v].row, rows, cols);
  if (data == at_[v].data) return;
  cast_row(fused_loop_.lanes[v], fused_loop_.lanes[v])
      .variants[0]({rows, cols, data, to.stride[rows_dim_], {at_[v].data}, {at_[v].row}});
}

}  // namespace tile::cpu
