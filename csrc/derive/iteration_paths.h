// Copies a loop's body without its jumps.
#pragma once
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"

namespace tile {

// The ways to leave a block, as bits.
enum Ends : unsigned { falls = 1, continues = 2, leaves = 4 };

// Returns the ways in which a block of a loop's body may end, from ops[first] on.
unsigned ends_of(const Block& block, size_t first = 0);

// Copies the paths of an iteration that end by a jump of `kinds`. The others are known not to be taken, so
// that their conditions are not tested.
class IterationPaths {
 public:
  // map: from the body's arguments. untaken: a region that is known not to run; null: there is none.
  IterationPaths(Builder& build, unsigned kinds, ValueMap map, const Block* untaken = nullptr)
      : build_(build), kinds_(kinds), map_(std::move(map)), untaken_(untaken) {}
  // Emits the iteration, and returns the operands of its jump.
  std::vector<Value*> copy(const Block& body) { return emit(body, 0, false).values; }

 private:
  // How a copied block ends: it jumps if `jumps` is true, or always, or never.
  struct Outcome {
    bool always = false;
    Value* jumps = nullptr;      // null: always, or never
    std::vector<Value*> values;  // of the jump
    std::vector<Value*> yields;  // if it does not jump
  };
  struct Branch {
    std::unique_ptr<Block> block = std::make_unique<Block>();
    Outcome outcome;
  };

  Value* of(Value* value) const;
  std::vector<Value*> of(const std::vector<Value*>& values) const;
  bool may_end(const Block& block, size_t first, bool rest) const;
  Outcome emit(const Block& block, size_t first, bool rest);
  Outcome go_on(Outcome outcome, const Op& branch, const Block& block, size_t first, bool rest);
  template <class F>
  Branch branch(F&& emit);
  Outcome join(Value* condition, Branch then, Branch otherwise);
  void yield(const Branch& branch, bool flagged, const std::vector<Type>& values,
             const std::vector<Type>& yields);

  Builder& build_;
  const unsigned kinds_;
  ValueMap map_;
  const Block* const untaken_;
};

}  // namespace tile
