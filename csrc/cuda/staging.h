// Which loads go to shared memory without passing through registers: those that only tensor cores read.
//
// In a counted loop they run ahead of the products by some iterations (cp.async, several buffers); elsewhere
// they are waited for at once.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda/array_facts.h"
#include "cuda/mma_instruction.h"
#include "ir/op.h"

namespace tile::cuda {

// A tile in shared memory, with its rows as they lie in the array.
struct Staged {
  const Op* load;
  int rows, width;                 // of the tile in shared memory
  bool transposed;                 // its rows are the loaded tile's columns
  const Op* loop;                  // whose iterations it runs ahead of; null: none
  std::vector<const Op*> address;  // ops of the loop's body that its address needs, in order
  DType dtype() const { return load->results[0]->type.dtype; }
  int64_t bytes() const { return int64_t{rows} * width * info(dtype()).bytes; }
};

// The value behind permutes that exchange the last two axes, and whether they do; of tf32, the f32 that was
// rounded to it.
struct MmaOperand {
  const Value* value;
  bool transposed;
};
MmaOperand mma_operand(const Value* value);

class StagingPlan {
 public:
  // Plans for blocks with so much shared memory: where all tiles together do not fit, the last are not
  // staged.
  StagingPlan(const Function& function, const KernelArrays& arrays, int arch, int64_t shared_bytes);
  const Staged* of(const Op& load) const;
  // Returns a product's tensor-core instruction; null: it is summed by FMA.
  const MmaInstruction* instruction(const Op& mma) const { return mma_instruction(mma, arch_); }
  // Returns true if the op iterations a tile that only products read, or rounds it to tf32: they do so as
  // they read it.
  bool left_to_products(const Op& op) const { return left_to_products_.count(&op) != 0; }
  // Returns true if operand i of the product lies in shared memory with the other one's axis of the product
  // along its rows: k runs across them.
  bool across_rows(const Op& mma, size_t i) const;
  // Returns the bytes that the tiles of a block take at once, without those that run ahead of a loop.
  int64_t bytes_at_once(const Block& block, const Op* but_ahead_of = nullptr) const;
  // The most that a product writes to shared memory: operands that are not staged.
  int64_t written_bytes() const { return written_bytes_; }
  // Those that run ahead of a loop, in order.
  std::vector<const Staged*> ahead_of(const Op& loop) const;
  // The product of a loop that does nothing else, of operands that run ahead of it; null: it is no such loop.
  const Op* product_of(const Op& loop) const;

 private:
  using Users = std::unordered_map<const Value*, std::vector<const Op*>>;
  void visit(const KernelArrays& arrays, const Block& block, const Users& users);
  bool only_multiplied(const Value* value, const Users& users) const;
  const Staged* staged(const Value* operand) const;
  // Beside what is taken already no more than `most`: what passes it is not staged.
  void limit(const Block& block, int64_t taken, int64_t most);
  std::unordered_map<const Op*, Staged> staged_;
  std::vector<const Op*> order_;
  std::unordered_set<const Op*> left_to_products_;
  int arch_;
  int64_t written_bytes_ = 0;
};

// The ops of `body` that the load's address needs, in order; false where one of them is no plain scalar or
// view, or a value is carried from iteration to iteration: the address is then not known ahead. Of arrays
// that are `constant`, where given, an element may be loaded for it.
bool address_ops(const Op& load, const Block& body, std::vector<const Op*>& ops,
                 const KernelArrays* constant = nullptr);

}  // namespace tile::cuda
