// Running a sweep: extents, collapsing of axes, then chunks.
#include "cpu/sweep.h"

#include <algorithm>
#include <cstring>

#include "cpu/stream.h"
#include "cpu/sweep_space.h"

namespace tile::cpu {
namespace {

// Intermediate results of a chunk share half of the first-level cache; calls cost too much on shorter chunks.
constexpr int64_t cache_bytes = 16384, least_lanes = 512, most_lanes = 8192;

DType lane_dtype(Lane lane) {
  constexpr DType dtypes[lane_count] = {DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64,
                                        DType::u16, DType::u32, DType::u64, DType::f32, DType::f64};
  return dtypes[static_cast<int>(lane)];
}

// Where a value's chunk is: rows are `row` bytes apart.
struct Chunked {
  char* data = nullptr;
  int64_t row = 0;
};

// One run of a sweep.
class Run {
 public:
  Run(const Sweep& sweep, Frame& frame) : sweep_(sweep), frame_(frame), space_(frame.scratch) {}

  void operator()() {
    size_t mark = frame_.scratch.mark();
    if (space_.prepare(sweep_, frame_)) {
      take_buffers();
      for (const SweepReduction& reduction : sweep_.reductions) begin_reduction(reduction);
      loop();
      finish();
    }
    frame_.scratch.release(mark);
  }

 private:
  using Cursor = SweepSpace::Cursor;
  size_t values() const { return sweep_.lanes.size(); }
  bool varies(size_t value, int dim) const { return space_.varies(value, dim); }

  template <class T>
  T* take(size_t count) { return reinterpret_cast<T*>(frame_.scratch.take(count * sizeof(T))); }

  void take_buffers() {
    rows_dim_ = space_.dims - 2;
    cols_dim_ = space_.dims - 1;
    buffers_ = take<char*>(values());
    at_ = take<Chunked>(values());
    direct_ = take<int>(values());
    for (size_t v = 0; v < values(); ++v) {
      direct_[v] = -1;
      at_[v] = {};
    }
    // A value that one store writes as it is may be computed in place.
    for (size_t k = 0; k < sweep_.stores.size(); ++k) {
      const Cursor& to = space_.stores[k];
      auto value = static_cast<size_t>(sweep_.stores[k].value);
      bool in_place = value >= sweep_.inputs.size() && to.lanes && !to.streams && direct_[value] < 0 && varies(value, cols_dim_) &&
                      (varies(value, rows_dim_) || space_.extent[rows_dim_] == 1) &&
                      to.stride[cols_dim_] == lane_bytes(sweep_.lanes[value]);
      if (in_place) direct_[value] = static_cast<int>(k);
    }
    // Chunks end where an array does, so that all but the last are read and written in place.
    edge_ = space_.extent[cols_dim_];
    auto limit = [&](const Cursor& cursor) {
      if (cursor.valid[cols_dim_] > 0) edge_ = std::min(edge_, cursor.valid[cols_dim_]);
    };
    for (size_t v = 0; v < sweep_.inputs.size(); ++v) limit(space_.inputs[v]);
    for (size_t k = 0; k < sweep_.stores.size(); ++k) limit(space_.stores[k]);
    // Lanes in place wherever the sweep goes: all that a chunk needs is their address.
    simple_ = take<bool>(values());
    for (size_t v = 0; v < sweep_.inputs.size(); ++v) {
      const Cursor& from = space_.inputs[v];
      simple_[v] = from.lanes && !from.outside &&
                   (from.stride[cols_dim_] == lane_bytes(sweep_.lanes[v]) || !varies(v, cols_dim_));
      for (int d = 0; d < space_.dims; ++d) simple_[v] &= from.first[d] <= 0 && from.valid[d] >= space_.extent[d];
    }
    const int64_t lanes = chunk_lanes();
    cols_ = std::min(space_.extent[cols_dim_], lanes);
    rows_ = std::clamp<int64_t>(lanes / std::max<int64_t>(cols_, 1), 1, std::max<int64_t>(space_.extent[rows_dim_], 1));
    for (size_t v = 0; v < values(); ++v) {
      int64_t count = (varies(v, rows_dim_) ? rows_ : 1) * (varies(v, cols_dim_) ? cols_ : 1);
      buffers_[v] = frame_.scratch.take(static_cast<size_t>(count * lane_bytes(sweep_.lanes[v])));
    }
    expanded_ = frame_.scratch.take(static_cast<size_t>(rows_ * cols_ * 8));
    converted_ = frame_.scratch.take(static_cast<size_t>(cols_ * 8));
  }

  // By the bytes a lane of what has to be kept between steps.
  int64_t chunk_lanes() const {
    int64_t bytes = 0;
    for (size_t v = 0; v < values(); ++v) {
      if (!varies(v, cols_dim_)) continue;
      const int64_t element = lane_bytes(sweep_.lanes[v]);
      bool kept = direct_[v] < 0;
      if (v < sweep_.inputs.size()) kept = !space_.inputs[v].lanes || space_.inputs[v].stride[cols_dim_] != element;
      for (const SweepOutput& output : sweep_.outputs) kept &= static_cast<size_t>(output.value) != v;
      if (kept) bytes += element;
    }
    return bytes ? std::clamp(cache_bytes / bytes / 64 * 64, least_lanes, most_lanes) : most_lanes;
  }

  void loop() {
    int64_t outer[max_rank] = {};
    const int outers = space_.dims - 2;
    int64_t turns = 1;
    for (int d = 0; d < outers; ++d) turns *= space_.extent[d];
    for (int64_t turn = 0; turn < turns; ++turn) {
      for (size_t v = 0; v < sweep_.inputs.size(); ++v) enter(space_.inputs[v], outer);
      for (size_t k = 0; k < sweep_.outputs.size(); ++k) enter(space_.outputs[k], outer);
      for (size_t k = 0; k < sweep_.stores.size(); ++k) enter(space_.stores[k], outer);
      for (size_t k = 0; k < sweep_.reductions.size(); ++k) enter(space_.reductions[k].cursor, outer);
      for (int64_t r = 0; r < space_.extent[rows_dim_]; r += rows_)
        for (int64_t c = 0, count; c < space_.extent[cols_dim_]; c += count) {
          count = std::min(cols_, (c < edge_ ? edge_ : space_.extent[cols_dim_]) - c);
          chunk(outer, r, std::min(rows_, space_.extent[rows_dim_] - r), c, count);
        }
      for (int d = outers - 1; d >= 0 && ++outer[d] == space_.extent[d]; --d) outer[d] = 0;
    }
  }

  // The part of [start, start + count) inside a cursor's bounds along a dimension, relative to start.
  struct Part {
    int64_t low, high;
    bool all(int64_t count) const { return low == 0 && high == count; }
  };
  static Part inside(const Cursor& cursor, int dim, int64_t start, int64_t count) {
    int64_t low = std::clamp<int64_t>(cursor.first[dim] - start, 0, count);
    return {low, std::clamp<int64_t>(cursor.valid[dim] - start, low, count)};
  }

  // Where a cursor stands at the start of rows and columns, for one index of the outer dimensions.
  void enter(Cursor& cursor, const int64_t* outer) const {
    cursor.line = cursor.data;
    cursor.within = !cursor.outside;
    for (int d = 0; d < space_.dims - 2; ++d) {
      cursor.within &= outer[d] >= cursor.first[d] && outer[d] < cursor.valid[d];
      cursor.line += outer[d] * cursor.stride[d];
    }
  }
  char* locate(const Cursor& cursor, int64_t r, int64_t c) const {
    return cursor.line + r * cursor.stride[rows_dim_] + c * cursor.stride[cols_dim_];
  }

  void chunk(const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols) {
    for (size_t v = 0; v < sweep_.inputs.size(); ++v) read(v, r, rows, c, cols);
    for (const SweepOutput& output : sweep_.outputs) {
      auto v = static_cast<size_t>(output.value);
      if (v < sweep_.inputs.size()) continue;
      const Cursor& to = space_.outputs[static_cast<size_t>(&output - sweep_.outputs.data())];
      at_[v] = {locate(to, r, c), to.stride[rows_dim_]};
    }
    for (const SweepStep& step : sweep_.steps) compute(step, r, rows, c, cols);
    for (size_t k = 0; k < sweep_.stores.size(); ++k) write(k, r, rows, c, cols);
    for (size_t k = 0; k < sweep_.reductions.size(); ++k) accumulate(k, outer, r, rows, c, cols);
    for (size_t k = 0; k < sweep_.outputs.size(); ++k) copy_output(k, r, rows, c, cols);
    for (size_t v = sweep_.inputs.size(); v < values(); ++v) at_[v].data = nullptr;
  }

  void read(size_t v, int64_t r, int64_t rows, int64_t c, int64_t cols) {
    const Cursor& from = space_.inputs[v];
    if (simple_[v]) {
      at_[v] = {locate(from, r, c), from.stride[rows_dim_]};
      return;
    }
    const int64_t element = lane_bytes(sweep_.lanes[v]);
    if (!varies(v, rows_dim_)) rows = 1;
    if (!varies(v, cols_dim_)) cols = 1;
    char* data = locate(from, r, c);
    const bool within = from.within;
    Part down = inside(from, rows_dim_, r, rows), across = inside(from, cols_dim_, c, cols);
    if (rows == 1 && !varies(v, rows_dim_)) down = {0, 1};
    if (cols == 1 && !varies(v, cols_dim_)) across = {0, 1};
    bool all = within && down.all(rows) && across.all(cols);
    if (all && from.lanes && (from.stride[cols_dim_] == element || cols == 1)) {
      at_[v] = {data, varies(v, rows_dim_) ? from.stride[rows_dim_] : 0};
      return;
    }
    const MoveRow& move = move_row(from.lanes ? lane_dtype(sweep_.lanes[v]) : from.dtype);
    int64_t line = cols * element;
    at_[v] = {buffers_[v], varies(v, rows_dim_) ? line : 0};
    if (!all) move.fill(buffers_[v], from.pad, rows * cols);
    if (!within || down.low >= down.high || across.low >= across.high) return;
    const int64_t row = from.stride[rows_dim_], column = from.stride[cols_dim_];
    move.load(data + down.low * row + across.low * column, row, column,
              buffers_[v] + down.low * line + across.low * element, line, down.high - down.low, across.high - across.low);
  }

  void compute(const SweepStep& step, int64_t r, int64_t rows, int64_t c, int64_t cols) {
    auto out = static_cast<size_t>(step.out);
    const int64_t element = lane_bytes(sweep_.lanes[out]);
    const bool down = varies(out, rows_dim_), across = varies(out, cols_dim_);
    if (!down) rows = 1;
    if (!across) cols = 1;
    if (!at_[out].data) {
      at_[out] = {buffers_[out], down ? cols * element : 0};
      if (direct_[out] >= 0) {
        const Cursor& to = space_.stores[static_cast<size_t>(direct_[out])];
        char* data = locate(to, r, c);
        if (to.within && inside(to, rows_dim_, r, rows).all(rows) && inside(to, cols_dim_, c, cols).all(cols))
          at_[out] = {data, to.stride[rows_dim_]};
      }
    }
    Chunk call;
    call.rows = rows;
    call.cols = cols;
    call.out = at_[out].data;
    call.out_row = at_[out].row;
    int repeats = 0;
    for (int k = 0; k < step.arity; ++k) {
      auto v = static_cast<size_t>(step.in[k]);
      call.in[k] = at_[v].data;
      call.in_row[k] = at_[v].row;
      if (across && !varies(v, cols_dim_)) repeats |= 1 << k;
    }
    step.variants[repeats](call);
  }

  // A chunk with every row and column there, for consumers that know no repeats.
  Chunked expand(size_t v, int64_t rows, int64_t cols) {
    if (varies(v, cols_dim_) || cols == 1) return at_[v];
    const int64_t element = lane_bytes(sweep_.lanes[v]);
    Chunk call{varies(v, rows_dim_) ? rows : 1, cols, expanded_, cols * element, {at_[v].data}, {at_[v].row}};
    cast_row(sweep_.lanes[v], sweep_.lanes[v]).variants[1](call);
    return {expanded_, varies(v, rows_dim_) ? cols * element : 0};
  }

  void write(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols) {
    const Cursor& to = space_.stores[k];
    auto v = static_cast<size_t>(sweep_.stores[k].value);
    char* data = locate(to, r, c);
    if (!to.within || at_[v].data == data) return;
    Part down = inside(to, rows_dim_, r, rows), across = inside(to, cols_dim_, c, cols);
    if (down.low >= down.high || across.low >= across.high) return;
    Chunked from = expand(v, rows, cols);
    const int64_t element = lane_bytes(sweep_.lanes[v]), row = to.stride[rows_dim_], column = to.stride[cols_dim_];
    char* first = data + down.low * row + across.low * column;
    const char* lanes = from.data + down.low * from.row + across.low * element;
    const int64_t height = down.high - down.low, width = across.high - across.low;
    const int64_t bytes = info(to.dtype).bytes;
    if (!to.streams || column != bytes || width * bytes < 256) {
      move_row(to.dtype).store(first, row, column, lanes, from.row, height, width);
      return;
    }
    for (int64_t i = 0; i < height; ++i) {
      const char* line = lanes + i * from.row;
      if (!to.lanes) {  // converted first, in cache
        move_row(to.dtype).store(converted_, width * bytes, bytes, line, from.row, 1, width);
        line = converted_;
      }
      stream_table().write(first + i * row, line, width * bytes);
    }
  }

  // Outputs that are inputs, or second outputs of a value, are copied; others were computed in place.
  void copy_output(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols) {
    const Cursor& to = space_.outputs[k];
    auto v = static_cast<size_t>(sweep_.outputs[k].value);
    char* data = locate(to, r, c);
    if (data == at_[v].data) return;
    Chunk call{varies(v, rows_dim_) ? rows : 1, varies(v, cols_dim_) ? cols : 1, data, to.stride[rows_dim_],
               {at_[v].data}, {at_[v].row}};
    cast_row(sweep_.lanes[v], sweep_.lanes[v]).variants[0](call);
  }

  void begin_reduction(const SweepReduction& reduction) {
    const auto& into = space_.reductions[static_cast<size_t>(&reduction - sweep_.reductions.data())];
    reduction.row->identity(into.cursor.data, into.count);
  }

  void accumulate(size_t k, const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols) {
    const auto& into = space_.reductions[k];
    const SweepReduction& reduction = sweep_.reductions[k];
    auto v = static_cast<size_t>(reduction.value);
    // Along an axis where the value repeats one turn stands for all: it has their weight.
    int64_t weight = 1;
    for (int d = 0; d < space_.dims - 2; ++d) {
      if (!varies(v, d) && outer[d] > 0) return;
      if (outer[d] == into.last[d]) weight *= into.weight[d];
    }
    const bool down = varies(v, rows_dim_), across = varies(v, cols_dim_);
    if ((!down && r > 0) || (!across && c > 0)) return;
    if (!down) rows = 1;
    if (!across) cols = 1;
    char* to = locate(into.cursor, r, c);
    const int64_t element = lane_bytes(sweep_.lanes[v]);
    // The last row and column may weigh more than the others: up to four pieces.
    int64_t heavy_rows = into.weight[rows_dim_] > 1 && r + rows > into.last[rows_dim_] ? 1 : 0;
    int64_t heavy_cols = into.weight[cols_dim_] > 1 && c + cols > into.last[cols_dim_] ? 1 : 0;
    for (int lower = 0; lower < 2; ++lower)
      for (int right = 0; right < 2; ++right) {
        int64_t r0 = lower ? rows - heavy_rows : 0, c0 = right ? cols - heavy_cols : 0;
        int64_t nr = lower ? heavy_rows : rows - heavy_rows, nc = right ? heavy_cols : cols - heavy_cols;
        if (nr <= 0 || nc <= 0) continue;
        piece(reduction, into, at_[v].data + r0 * at_[v].row + c0 * element, at_[v].row, nr, nc,
              to + r0 * into.cursor.stride[rows_dim_] + c0 * into.cursor.stride[cols_dim_], element,
              weight * (lower ? into.weight[rows_dim_] : 1) * (right ? into.weight[cols_dim_] : 1));
      }
  }

  void piece(const SweepReduction& reduction, const SweepSpace::Accumulator& into, char* from, int64_t from_row,
             int64_t rows, int64_t cols, char* to, int64_t element, int64_t weight) {
    const ReduceRow& row = *reduction.row;
    const bool columns = into.reduced[cols_dim_];
    const int64_t to_row = into.cursor.stride[rows_dim_];
    auto call = [&](char* out, int64_t out_row) {
      Chunk chunk{rows, cols, out, out_row, {from}, {from_row}};
      (columns ? row.columns : row.rows)(chunk);
    };
    if (weight == 1) return call(to, to_row);
    // Into identities first, weighed there, then combined.
    int64_t count = columns ? rows : cols;
    if (!columns)  // a row at a time, so that each accumulator is met once
      for (int64_t i = 0; i < rows; ++i) {
        row.identity(expanded_, count);
        row.rows({1, cols, expanded_, 0, {from + i * from_row}, {0}});
        row.weigh(expanded_, count, weight);
        row.rows({1, cols, to + i * to_row, 0, {expanded_}, {0}});
      }
    else {
      row.identity(expanded_, count);
      call(expanded_, element);
      row.weigh(expanded_, count, weight);
      row.rows({rows, 1, to, to_row, {expanded_}, {element}});
    }
  }

  void finish() {
    for (size_t k = 0; k < sweep_.reductions.size(); ++k) {
      const SweepReduction& reduction = sweep_.reductions[k];
      const auto& into = space_.reductions[k];
      if (ChunkFunction round = move_row(reduction.dtype).round)
        round({1, into.count, into.cursor.data, 0, {into.cursor.data}, {0}});
      if (reduction.scalar >= 0)
        std::memcpy(&frame_.scalars[static_cast<size_t>(reduction.scalar)], into.cursor.data,
                    static_cast<size_t>(lane_bytes(lane_of(reduction.dtype))));
      else
        frame_.tiles[static_cast<size_t>(reduction.tile)] = into.tile;
    }
    for (size_t k = 0; k < sweep_.outputs.size(); ++k)
      frame_.tiles[static_cast<size_t>(sweep_.outputs[k].tile)] = space_.output_tiles[k];
  }

  const Sweep& sweep_;
  Frame& frame_;
  SweepSpace space_;
  int rows_dim_ = 0, cols_dim_ = 0;
  int64_t rows_ = 1, cols_ = 1;
  int64_t edge_ = 0;  // columns from here on are padding of some participant
  char** buffers_ = nullptr;
  Chunked* at_ = nullptr;
  bool* simple_ = nullptr;  // by input
  int* direct_ = nullptr;  // by value: the store it is computed into, or -1
  char *expanded_ = nullptr, *converted_ = nullptr;
};

}  // namespace

Signal Sweep::run(Frame& frame) const {
  Run(*this, frame)();
  return Signal::next;
}

size_t Sweep::scratch_bytes() const {
  size_t elements = static_cast<size_t>(element_count(shape));
  return inputs.size() * elements * 8 + (lanes.size() + 3) * (most_lanes * 8 + 128) +
         (inputs.size() + outputs.size() + stores.size() + reductions.size() + 8) * 1024;
}

}  // namespace tile::cpu
