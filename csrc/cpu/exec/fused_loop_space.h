// The iteration space of one run of a fused loop: the extents of its operands, axes merged where every
// participant allows it, and one cursor per participant.
#pragma once
#include "cpu/fusion/fused_loop.h"
#include "cpu/interpreter/frame.h"

namespace tile::cpu {

class FusedLoopSpace {
 public:
  struct Cursor {
    char* data;
    DType dtype;
    bool lanes;
    bool streams;
    bool outside;  // nothing is inside: an axis of extent 1 is outside
    double pad;
    int64_t stride[max_rank], first[max_rank], valid[max_rank];
    char* line;   // during a run: the address of the first row and column,
    bool within;  // and whether it is inside the array
  };
  struct Accumulator {
    Cursor cursor;
    TileRef tile;
    int64_t count;  // number of accumulators
    bool reduced[max_rank];
    int64_t last[max_rank];    // the index that represents those not stored
    int64_t weight[max_rank];  // how many it represents, itself included; 1 for kept axes
  };

  // `keeps` means that the space is prepared for several runs, so that copies of memory are kept as well.
  FusedLoopSpace(Scratch& memory, bool keeps) : memory_(memory), keeps_(keeps) {}
  // Returns false if there is nothing to do.
  bool prepare(const FusedLoop& fused_loop, Frame& frame);
  // Returns true if preparing a new run would give the same result except for addresses; takes over the new
  // addresses.
  bool fits(const FusedLoop& fused_loop, const Frame& frame);
  bool copies() const { return copies_; }  // some input is a copy of array elements
  // Returns true if the reduced value varies along the dimension.
  bool reduces_along(const FusedLoopReduction& reduction, int dim) const {
    return summed(reduction) >> dim & 1;
  }
  bool varies(size_t value, int dim) const { return varies_[value] >> dim & 1; }

  int dims = 0;  // at least 2; the last two are the rows and columns of chunks
  int64_t extent[max_rank + 2];
  Cursor *inputs, *outputs, *stores;
  Accumulator* reductions;
  TileRef* output_tiles;

 private:
  bool find_extents(const FusedLoop& fused_loop, Frame& frame);
  void locate_inputs(const FusedLoop& fused_loop, Frame& frame);
  void locate_results(const FusedLoop& fused_loop, Frame& frame);
  void collapse(const FusedLoop& fused_loop);
  TileRef target(const FusedLoop& fused_loop, size_t store, const Frame& frame) const;
  uint32_t summed(const FusedLoopReduction& reduction) const {
    return varies_[reduction.value] | (reduction.factor < 0 ? 0 : varies_[reduction.factor]);
  }
  Scratch& memory_;
  TileRef *sources_, *targets_;  // of inputs and stores, by axis of the fused loop's shape
  bool* copied_;                 // inputs of which inputs[] has a copy,
  TileRef* copy_;                // and the copies of computed tiles, made again in each run
  uint32_t* varies_;             // by value: a bit per axis, later a bit per dimension
  int rank_ = 0;
  bool keeps_;
  bool ready_ = false;  // prepared and reusable
  bool copies_ = false;
};

}  // namespace tile::cpu
