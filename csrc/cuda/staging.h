// Staging: selects the loads that go to shared memory without passing through registers, because only
// products read them.
//
// In a counted loop these loads run some iterations ahead of the products (cp.async, several buffers);
// elsewhere the kernel waits for them at once.
#pragma once
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda/array_facts.h"
#include "cuda/mma_instruction.h"
#include "ir/op.h"

namespace tile::cuda {

// A tile in shared memory, with the rows of the array.
struct Staged {
  const Op* load;
  int rows, width;                 // of the tile in shared memory
  bool transposed;                 // its rows are the loaded tile's columns
  bool by_blocks;                  // only products by FMA read it
  bool flat;                       // and read its rows across k, so that nothing is permuted
  bool crossed;                    // copied element by element, so that they do
  bool by_rows;                    // each row has an index of its own, which threads compute
  const Op* loop;                  // the loop whose iterations the load runs ahead of, or null
  std::vector<const Op*> address;  // ops of the loop's body that its address needs, in order
  DType dtype() const { return load->results[0]->type.dtype; }
  int64_t bytes() const;
};

// Returns true if the op exchanges the axes of a matrix.
bool transposes(const Op& op);
// Returns true if the op rounds f32 to tf32.
bool rounds_to_tf32(const Op& op);

// An operand without its enclosing permutes of the last two axes, and whether they transpose it. For tf32 it
// is the f32 value before rounding.
struct MmaOperand {
  const Value* value;
  bool transposed;
};
MmaOperand mma_operand(const Value* value);

using Users = std::unordered_map<const Value*, std::vector<const Op*>>;
Users users_of(const Block& block);
// Returns true if results of `made` are operands of the op.
bool uses_results(const Op& op, const Op& made);
// Returns true if the value is only an operand, perhaps transposed or rounded to tf32, of products for which
// `multiplies` returns true.
bool only_multiplied(const Value* value, const Users& users,
                     const std::function<bool(const Op&)>& multiplies);

// Returns true if the op loads a scalar from an array that the kernel does not write: it may then be loaded
// again wherever it is needed.
bool loads_scalar(const Op& op, const KernelArrays& arrays);

class StagingPlan {
 public:
  // Plans for CTAs with so much shared memory: if not all tiles fit, the last are not staged.
  StagingPlan(const Function& function, const KernelArrays& arrays, int arch, int64_t shared_bytes);
  const Staged* of(const Op& load) const;
  // Returns a product's tensor-core instruction, or null if it uses FMA.
  const MmaInstruction* instruction(const Op& mma) const { return mma_instruction(mma, arch_); }
  // Returns true if a product uses FMA and threads hold blocks of its sums (cuda/fma_plan.h).
  bool by_blocks(const Op& mma) const;
  // Returns true for products of either kind, which read operands from staged tiles. Others use FMA as well.
  bool multiplies(const Op& mma) const { return instruction(mma) || by_blocks(mma); }
  // Returns true if the op transposes a tile that only products read, or rounds it to tf32: the products do
  // so when they read it.
  bool left_to_products(const Op& op) const { return left_to_products_.count(&op) != 0; }
  // Returns true if the rows of the product's operand i in shared memory run along its non-k axis, so that k
  // crosses rows.
  bool across_rows(const Op& mma, size_t i) const;
  // Returns how many bytes the tiles of a block need at once, without those that run ahead of a loop.
  int64_t bytes_at_once(const Block& block, const Op* but_ahead_of = nullptr) const;
  // Returns the most bytes that a product writes to shared memory, for operands that are not staged.
  int64_t written_bytes() const { return written_bytes_; }
  // Returns the tiles that run ahead of the loop, in order.
  std::vector<const Staged*> ahead_of(const Op& loop) const;
  // Returns the loop's only product if the loop computes no other tile and loads both operands ahead, else
  // null.
  const Op* product_of(const Op& loop) const;

 private:
  void visit(const KernelArrays& arrays, const Block& block, const Users& users);
  bool only_multiplied(const Value* value, const Users& users) const;  // by products that read staged tiles
  const Staged* staged(const Value* operand) const;
  // Selects tiles that are transposed as they are copied.
  void cross(const Function& function);
  // Limits the staged bytes, including `taken`, to `most`: tiles past the limit are not staged.
  void limit(const Block& block, int64_t taken, int64_t most);
  std::unordered_map<const Op*, Staged> staged_;
  std::vector<const Op*> order_;
  std::unordered_set<const Op*> left_to_products_;
  int arch_;
  int64_t written_bytes_ = 0;
};

// Collects the ops of `body` that the load's address needs, in order. Returns false if the address is not
// known ahead: one of them is neither a plain op nor a view, or uses a loop-carried value. If `constant` is
// given, elements of its constant arrays may be loaded for the address, and vectors of them for an index
// tile.
bool address_ops(const Op& load, const Block& body, std::vector<const Op*>& ops,
                 const KernelArrays* constant = nullptr);

}  // namespace tile::cuda
