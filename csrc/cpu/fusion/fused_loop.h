// A fused loop: a chain of elementwise steps over one tile shape, with the inputs it reads, the tiles and
// memory it writes and the reductions it ends in, run over chunks that stay in the first-level cache.
#pragma once
#include <optional>
#include <vector>

#include "cpu/interpreter/address.h"
#include "cpu/interpreter/frame.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {

class LoweringContext;

struct FusedLoopStep {
  std::string_view name;                    // of the row
  const ChunkFunction* variants = nullptr;  // by the mask of operands that repeat along the columns
  int arity = 1;
  int in[most_operands] = {};  // values of the fused loop
  int out = 0;
};

struct FusedLoopOutput {
  int value, tile, slot;
  DType dtype;
  bool elements = false;  // as memory has them, for products alone: of denormal numbers may come 0
};
struct FusedLoopStore {
  int value;
  TileAddress address;
};
struct FusedLoopReduction {
  int value;
  int factor = -1;  // another value: what is added up is their product
  const ReduceRow* row;
  std::vector<bool> reduced;  // by axis of the fused loop's shape
  DType dtype;
  int tile = -1, slot = -1;
  int scalar = -1;  // where all axes are reduced
};

// A tile of memory, and the axis along which its array goes on with what the next iteration or block reads.
struct FusedLoopPrefetch {
  int tile, axis;
};

// Values are numbered: inputs first, then one for each step's result.
struct FusedLoop {
  Shape shape;
  std::vector<int> inputs;                  // tiles of the frame
  std::vector<std::optional<float>> known;  // of each input: the number that it is everywhere
  std::vector<bool> read_once;              // of each input: it is in memory, and no other node's
  std::vector<Lane> lanes;                  // of each value
  std::vector<DType> dtypes;                // the dtype that the lanes of each value are rounded to
  std::vector<int> buffers;                 // of each value: values that never live at once share one
  int buffer_count = 0;
  std::vector<FusedLoopStep> steps;
  std::vector<FusedLoopOutput> outputs;
  std::vector<FusedLoopStore> stores;
  std::vector<FusedLoopReduction> reductions;
  std::vector<FusedLoopPrefetch> prefetch;  // fetched into the cache meanwhile
};

// The node that runs a fused loop. Defined in cpu/exec, which knows how loops run.
std::unique_ptr<OpNode> make_fused_loop_node(LoweringContext& lower, FusedLoop fused_loop);

}  // namespace tile::cpu
