// The iteration space of one run of a fused loop: extents found from what is there, axes merged where every
// participant allows it, and a cursor a participant.
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
    bool outside;  // nothing of it is there: an axis of extent 1 lies outside
    double pad;
    int64_t stride[max_rank], first[max_rank], valid[max_rank];
    char* line;   // while running: where rows and columns start,
    bool within;  // and whether they are there at all
  };
  struct Accumulator {
    Cursor cursor;
    TileRef tile;
    int64_t count;  // accumulators
    bool reduced[max_rank];
    int64_t last[max_rank];    // the index that stands for those not stored
    int64_t weight[max_rank];  // and how many they are, itself included; 1 where the axis is kept
  };

  // `keeps`: prepared for more than one run, so that copies of memory are kept as well.
  FusedLoopSpace(Scratch& memory, bool keeps) : memory_(memory), keeps_(keeps) {}
  // false: there is nothing to do.
  bool prepare(const FusedLoop& fused_loop, Frame& frame);
  // Returns true if a new run would be prepared alike, but for addresses; these are then taken over.
  bool fits(const FusedLoop& fused_loop, const Frame& frame);
  bool copies() const { return copies_; }  // elements of arrays
  // Returns true if what a reduction adds up differs along a dimension.
  bool reduces_along(const FusedLoopReduction& reduction, int dim) const {
    return summed(reduction) >> dim & 1;
  }
  bool varies(size_t value, int dim) const { return varies_[value] >> dim & 1; }

  int dims = 0;  // at least 2; the last two are rows and columns of chunks
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
  bool* copied_;                 // inputs that inputs[] has a copy of
  uint32_t* varies_;             // by value: a bit an axis, then a bit a dimension
  int rank_ = 0;
  bool keeps_;
  bool ready_ = false;  // prepared, and fit to be used again
  bool copies_ = false;
};

}  // namespace tile::cpu
