// A fused loop: a chain of elementwise steps over one tile shape, its inputs, the tiles and memory that it
// writes, and its final reductions. It runs over chunks that stay in the first-level cache.
#pragma once
#include <optional>
#include <vector>

#include "cpu/interpreter/address.h"
#include "cpu/interpreter/frame.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {

class LoweringContext;

struct FusedLoopStep {
  std::string_view name;                    // the row's name
  const ChunkFunction* variants = nullptr;  // by the mask of operands that repeat along the columns
  int arity = 1;
  int in[most_operands] = {};  // values of the fused loop
  int out = 0;
};

struct FusedLoopOutput {
  int value, tile, slot;
  DType dtype;
  bool elements = false;  // elements in memory format, for products only: subnormals may become 0
};
struct FusedLoopStore {
  int value;
  TileAddress address;
};
struct FusedLoopReduction {
  int value;
  int factor = -1;  // if set, the products of both values are reduced
  const ReduceRow* row;
  std::vector<bool> reduced;  // by axis of the fused loop's shape
  DType dtype;
  int tile = -1, slot = -1;
  int scalar = -1;  // if all axes are reduced
};

// A tile of memory, and the axis along which the next iteration or block continues to read.
struct FusedLoopPrefetch {
  int tile, axis;
};

// Values are numbered: inputs first, then one for each step's result.
struct FusedLoop {
  Shape shape;
  std::vector<int> inputs;                  // tiles of the frame
  std::vector<std::optional<float>> known;  // per input: its value if it is a constant
  std::vector<bool> read_once;              // per input: in memory, and read by no other node
  std::vector<Lane> lanes;                  // per value
  std::vector<DType> dtypes;                // per value: the dtype that the lanes are rounded to
  std::vector<int> buffers;                 // per value: values that are never live at once share one
  int buffer_count = 0;
  std::vector<FusedLoopStep> steps;
  std::vector<FusedLoopOutput> outputs;
  std::vector<FusedLoopStore> stores;
  std::vector<FusedLoopReduction> reductions;
  std::vector<FusedLoopPrefetch> prefetch;  // tiles to prefetch during the loop
};

// The node that runs a fused loop. Defined in cpu/exec, which knows how loops run.
std::unique_ptr<OpNode> make_fused_loop_node(LoweringContext& lower, FusedLoop fused_loop);

}  // namespace tile::cpu
