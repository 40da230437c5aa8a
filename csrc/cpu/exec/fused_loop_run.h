// One run of a fused loop in a frame: its participants' addresses and its division into chunks. It is reused
// between runs, since most blocks differ only in addresses.
#pragma once
#include <algorithm>

#include "cpu/exec/fused_loop_node.h"
#include "cpu/exec/fused_loop_space.h"

namespace tile::cpu {

class FusedLoopRun final : public NodeState {
 public:
  // Without `memory` it uses its own, which outlives the run.
  explicit FusedLoopRun(const FusedLoopNode& node, Scratch* memory = nullptr);
  bool prepare(Frame& frame);  // false: there is nothing to do
  // Returns true if everything but addresses equals what prepare() found; takes over the new addresses.
  bool fits(const Frame& frame) { return vectors_ == jit::enabled() && space_.fits(fused_loop_, frame); }
  bool lasts() const override { return !space_.copies(); }
  void operator()(Frame& frame);

 private:
  using Cursor = FusedLoopSpace::Cursor;
  // A value's chunk: rows are `row` bytes apart.
  struct Chunked {
    char* data = nullptr;
    int64_t row = 0;
  };
  // The address of a value while the chunk is inside every array: at a cursor, or in a buffer.
  struct ValueAddress {
    const Cursor* moving = nullptr;
    size_t offset = 0;  // offset of the buffer
    int64_t row = 0;
  };
  struct Call {
    ChunkFunction function;
    int arity, in[most_operands], out;
  };
  size_t values() const { return fused_loop_.lanes.size(); }
  size_t input_count() const { return fused_loop_.inputs.size(); }
  bool varies(size_t value, int dim) const { return space_.varies(value, dim); }
  int64_t element(size_t value) const { return lane_bytes(fused_loop_.lanes[value]); }

  // Called before the first chunk.
  void find_addresses();
  void find_edges();
  void size_chunks();
  void allocate_buffers();
  bool in_place(size_t input) const;
  // Returns the function that moves an input from memory to lanes.
  const MoveRow& mover(size_t input) const {
    const Cursor& from = space_.inputs[input];
    return move_row(from.lanes ? dtype_of(fused_loop_.lanes[input]) : from.dtype);
  }
  // Chunks past the edge are often one column wide, and have as many rows as fit the buffers.
  int64_t edge_line() const { return std::min(space_.extent[cols_dim_] - edge_, cols_); }
  int64_t edge_rows() const {
    return edge_line() > 0 ? std::min(rows_ * cols_ / edge_line(), space_.extent[rows_dim_]) : 0;
  }

  // Compiles the loop to machine code if possible.
  void assemble();
  bool describe(jit::FusedLoopForm& form) const;
  bool transposed(size_t input) const;  // the code reads it from a buffer, since its columns are not adjacent
  // Returns the number of columns processed.
  int64_t run_code(const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols);
  bool lines_apart(size_t k) const;  // a reduction whose rows are first summed in a separate line
  size_t line_bytes() const { return static_cast<size_t>(cols_) * 4; }
  char* line(size_t number) const { return base_ + lines_offset_ + number * line_bytes(); }

  // A tile to prefetch: the next tile is `distance` bytes away, and its rows are `row` bytes apart.
  struct Prefetch {
    int tile;
    DType dtype;
    int64_t distance, row;
    char* at;  // its first row and column in this run
  };
  void find_prefetch(const Frame& frame);
  std::optional<int64_t> row_bytes(const TileRef& tile) const;

  // Runs all chunks.
  void chunks(const int64_t* outer, int64_t low, int64_t high, int64_t most_rows);
  void enter(Cursor& cursor, const int64_t* outer) const;
  char* locate(const Cursor& cursor, int64_t r, int64_t c) const {
    return cursor.line + r * cursor.stride[rows_dim_] + c * cursor.stride[cols_dim_];
  }
  // The part of a chunk that is inside an array: rows and columns relative to the chunk's start.
  struct Part {
    int64_t top = 0, bottom = 0, left = 0, right = 0;
    bool complete = false;
    bool none() const { return top >= bottom || left >= right; }
    int64_t rows() const { return bottom - top; }
    int64_t cols() const { return right - left; }
  };
  Part part(const Cursor& cursor, int64_t r, int64_t rows, int64_t c, int64_t cols) const;
  bool inside(int64_t r, int64_t rows, int64_t c, int64_t cols) const;
  bool weighs(const int64_t* outer, int64_t row, int64_t column) const;
  void chunk(const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols);
  void locate_inside(int64_t r, int64_t rows, int64_t c, int64_t cols);
  void call(const Call& call, int64_t rows, int64_t cols) const;
  void put(const Cursor& to, char* first, const char* lanes, int64_t row, int64_t rows, int64_t cols) const;
  void copy_output(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols);
  Chunked expand(size_t v, int64_t rows, int64_t cols, char* to) const;

  // Chunks that cross an array's edge.
  void locate_at_edge(int64_t r, int64_t rows, int64_t c, int64_t cols);
  void read(size_t v, int64_t r, int64_t rows, int64_t c, int64_t cols);
  void write(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols);

  // Reductions.
  void begin(size_t k) const;
  void accumulate(size_t k, const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols);
  struct WeightedPart;
  bool transposes(size_t k, const WeightedPart& part) const;
  void add(size_t k, WeightedPart part) const;
  void finish(Frame& frame) const;

  const FusedLoopNode& node_;
  const FusedLoop& fused_loop_;
  Scratch own_;
  Scratch& memory_;
  FusedLoopSpace space_;
  int rows_dim_ = 0, cols_dim_ = 0;
  int64_t rows_ = 1, cols_ = 1;  // of a chunk
  int64_t line_ = 1;             // lanes from row to row in a buffer, for the current chunk
  int64_t edge_ = 0;             // columns from here on are padding for some participant, or have a weight
  ValueAddress* addresses_ = nullptr;  // by value
  Chunked* at_ = nullptr;              // by value, for the current chunk
  int* direct_ = nullptr;              // by value: the store it is computed into, or -1
  Call* calls_ = nullptr;              // by step
  int *converted_ = nullptr, *bounded_ = nullptr,
      *bounded_stores_ = nullptr;  // inputs to convert; participants with an edge
  Prefetch* prefetch_ = nullptr;
  int prefetch_count_ = 0;
  int converted_count_ = 0, bounded_count_ = 0, bounded_store_count_ = 0;
  size_t bytes_ = 0, expanded_offset_ = 0;
  char* base_ = nullptr;                                         // base address of the buffers
  bool no_repeats_ = true;                                       // no reduction repeats an outer dimension
  jit::FusedLoopFunction code_ = nullptr, streaming_ = nullptr;  // for whole chunks
  std::optional<jit::Vectors> vectors_;  // the vector width that `code_` was compiled for
  bool any_columns_ = true;              // code_ accepts any number of columns
  int64_t row_edge_ = 0;                 // rows from here on are padding for some participant
  size_t lines_offset_ = 0;
};

}  // namespace tile::cpu
