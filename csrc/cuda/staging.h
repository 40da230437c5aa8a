// Which loads go to shared memory without passing through registers: those that only tensor cores read.
//
// In a counted loop they run ahead of the products by some turns (cp.async, several buffers); elsewhere they
// are waited for where they stand.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda/array_facts.h"
#include "ir/op.h"

namespace tile::cuda {

// A tile in shared memory, with its rows as they lie in the array.
struct Staged {
  const Op* load;
  int rows, width;                 // of the tile in shared memory
  bool turned;                     // its rows are the loaded tile's columns
  const Op* loop;                  // whose turns it runs ahead of; null: none
  std::vector<const Op*> address;  // ops of the loop's body that its address needs, in order
  int64_t bytes() const { return int64_t{rows} * width * 2; }
};

class StagingPlan {
 public:
  StagingPlan(const Function& function, const KernelArrays& arrays);
  const Staged* of(const Op& load) const;
  // Whether the op turns a tile that only products read: they read it turned.
  bool read_turned(const Op& op) const { return turned_.count(&op) != 0; }
  // Those that run ahead of a loop, in order.
  std::vector<const Staged*> ahead_of(const Op& loop) const;
  // The product of a loop that does nothing else, of operands that run ahead of it; null: it is no such loop.
  const Op* product_of(const Op& loop) const;

 private:
  using Users = std::unordered_map<const Value*, std::vector<const Op*>>;
  void visit(const KernelArrays& arrays, const Block& block, const Users& users);
  std::unordered_map<const Op*, Staged> staged_;
  std::vector<const Op*> order_;
  std::unordered_set<const Op*> turned_;
};

// The ops of `body` that the load's address needs, in order; false where one of them is no plain scalar or
// view, or a value is carried from turn to turn: the address is then not known ahead.
bool address_ops(const Op& load, const Block& body, std::vector<const Op*>& ops);

// The value behind permutes that exchange the last two axes, and whether they do.
struct MmaOperand {
  const Value* value;
  bool turned;
};
MmaOperand mma_operand(const Value* value);
// Whether mma.sync can multiply these: 16-bit floats into float32, extents that blocks divide.
bool on_tensor_cores(const Op& mma);

}  // namespace tile::cuda
