// A sweep: a chain of elementwise steps over one tile shape, with the inputs it reads, the tiles and memory
// it writes and the reductions it ends in, run over chunks that stay in the first-level cache.
#pragma once
#include <optional>
#include <vector>

#include "cpu/address.h"
#include "cpu/assembler/sweep_code.h"
#include "cpu/frame.h"
#include "cpu/tables.h"

namespace tile::cpu {

struct SweepStep {
  std::string_view name;                    // of the row
  const ChunkFunction* variants = nullptr;  // by the mask of operands that repeat along the columns
  int arity = 1;
  int in[most_operands] = {};  // values of the sweep
  int out = 0;
};

struct SweepOutput {
  int value, tile, slot;
  DType dtype;
  bool elements = false;  // as memory has them, for products alone: of denormal numbers may come 0
};
struct SweepStore {
  int value;
  TileAddress address;
};
struct SweepReduction {
  int value;
  int factor = -1;  // another value: what is added up is their product
  const ReduceRow* row;
  std::vector<bool> reduced;  // by axis of the sweep's shape
  DType dtype;
  int tile = -1, slot = -1;
  int scalar = -1;  // where all axes are reduced
};

// A tile of memory, and the axis along which its array goes on with what the next turn or block reads.
struct SweepAhead {
  int tile, axis;
};

// Values are numbered: inputs first, then one for each step's result.
struct Sweep final : Unit {
  Shape shape;
  std::vector<int> inputs;                  // tiles of the frame
  std::vector<std::optional<float>> known;  // of each input: the number that it is everywhere
  std::vector<bool> read_once;              // of each input: it is in memory, and no other unit's
  std::vector<Lane> lanes;                  // of each value
  std::vector<DType> dtypes;                // the dtype that the lanes of each value are rounded to
  std::vector<int> buffers;                 // of each value: values that never live at once share one
  int buffer_count = 0;
  int kept = -1;                        // in Frame::kept
  mutable assembler::SweepCodes codes;  // as machine code, for what it met so far
  std::vector<SweepStep> steps;
  std::vector<SweepOutput> outputs;
  std::vector<SweepStore> stores;
  std::vector<SweepReduction> reductions;
  std::vector<SweepAhead> ahead;  // fetched into the cache meanwhile

  Signal run(Frame& frame) const override;
  size_t run_bytes() const;      // of a SweepRun's own memory
  size_t scratch_bytes() const;  // what one run takes at most
};

}  // namespace tile::cpu
