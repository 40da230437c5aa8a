// Chooses what a transposed kernel computes again, and what the derived kernel keeps for it.
#pragma once
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/build.h"

namespace tile {

// Accesses a tile that is the whole of an array of such a shape.
Value* load_whole(Builder& build, Value* array, const Shape& shape, const Type& type);
void store_whole(Builder& build, Value* array, const Shape& shape, Value* tile);

// Tiles of each block that a kernel stores and others load, in arrays [blocks, shape…].
class KeptTiles {
 public:
  explicit KeptTiles(const Function& function) : function_(function) {}
  size_t number_of(Value* value);  // adds it if it is new
  size_t size() const { return values_.size(); }
  Value* value(size_t number) const { return values_.at(number); }
  Shape shape(size_t number) const;  // of the tile, without axes of one element; a number's is [1]
  Type array_type(size_t number) const;
  // Accesses the tile of a block in its array.
  Value* load(Builder& build, Value* array, size_t number, Value* block) const;
  void store(Builder& build, Value* array, size_t number, Value* block, Value* tile) const;

 private:
  const Function& function_;
  std::vector<Value*> values_;
};

// Numbers the blocks of the grid, the first axis fastest, as i64. axes: those along which there may be
// several.
Value* block_number(Builder& build, const std::vector<int>& axes = {0, 1, 2});
// The same of a block at place(axis), in a grid of count(axis) blocks.
Value* block_number(Builder& build, const std::function<Value*(int64_t)>& place,
                    const std::function<Value*(int64_t)>& count, const std::vector<int>& axes = {0, 1, 2});

// The values of a kernel, as a loop and a grid axis are exchanged.
class Recomputed {
 public:
  // loop: null, and axis -1, if none are exchanged.
  Recomputed(const Function& function, const Op* loop, int axis);
  // The value differs between blocks along the axis, or it is kept, and so loaded for each of them.
  bool depends(Value* value);
  // It is loaded, because this is cheaper than to compute it again.
  bool keeps(Value* value);
  // Returns why an op cannot run in another kernel; empty: it can.
  std::string why_not(const Op& op) const;

 private:
  bool in_loop(const Op& op) const;
  double cost(Value* value);        // bytes, and other work as bytes
  double cost_again(Value* value);  // to compute it, or load it from where the kernel does
  double cost_kept(const Value* value) const;

  const Op* const loop_;
  const int axis_;
  std::unordered_set<const Value*> written_;
  std::unordered_map<const Value*, bool> depends_;
  std::unordered_map<const Value*, double> again_;
};

// Returns true if a loop's bounds are computed from an op for which `which` is true.
bool bounds_use(const Op& loop, bool (*which)(const Op& op));

// Returns the operands of an op, and the values that its regions take from outside.
std::vector<Value*> free_values(const Op& op);

}  // namespace tile
