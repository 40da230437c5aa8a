// How a primitive becomes text: a record a primitive, in cuda/prims/<family>.cpp.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cuda/layout.h"
#include "ir/op.h"

namespace tile::cuda {

class Elements;
class Emitter;

struct LoweringRule {
  std::string_view name;
  void (*emit)(Emitter& emitter, const Op& op) = nullptr;
  // The layout of `to` with which the op moves no element when `from` has `layout`; both are operands or
  // results of it. Without the function there is none.
  std::optional<Layout> (*relate)(const Op& op, const Value* from, const Value* to,
                                  const Layout& layout) = nullptr;
  // True if its tiles may be distributed over the blocks of a cluster.
  bool across = false;
  // True if only the threads of one block can agree on it: a kernel that has it runs without clusters.
  bool single_cta = false;
  // True if the blocks of a cluster send each other something for it.
  bool exchanges = false;
  // True if it combines elements to fewer, in any order and through any layout.
  bool reduces = false;
  // An element of the result from those of the operands. `moves`: it is the operand's itself.
  std::string (*element)(Emitter& emitter, const Op& op, const Elements& operands) = nullptr;
  bool moves = false;
  // For an op that moves elements: the order of the operand's and of the result's elements; without the
  // function both are row-major.
  std::pair<Weights, Weights> (*weights)(const Op& op) = nullptr;
  // The tile that it moves between memory and registers in vectors: such an op proposes a layout for it.
  const Value* (*accessed)(const Op& op) = nullptr;
};

// `static const AddLoweringRule gather_{{"gather", …}};`
struct AddLoweringRule {
  explicit AddLoweringRule(const LoweringRule& lowering);
};
const LoweringRule* find_lowering(std::string_view primitive);
bool has_cuda_body(std::string_view primitive);
bool reduces(const Op& op);
const Value* accessed(const Op& op);  // null: none

std::optional<Layout> related(const Op& op, const Value* from, const Value* to, const Layout& layout);
// For ops whose tiles all have one layout.
std::optional<Layout> same_layout(const Op& op, const Value* from, const Value* to, const Layout& layout);

}  // namespace tile::cuda
