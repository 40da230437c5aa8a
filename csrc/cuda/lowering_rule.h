// How a primitive is emitted as source: one record per primitive, in cuda/prims/<family>.cpp.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cuda/layout.h"
#include "ir/op.h"
#include "ir/walk.h"

namespace tile::cuda {

class Elements;
class Emitter;

struct LoweringRule {
  std::string_view name;
  void (*emit)(Emitter& emitter, const Op& op) = nullptr;
  // Returns the layout of `to` with which the op moves no element if `from` has `layout`; both are
  // operands or results of the op. A null function means that there is no such layout.
  std::optional<Layout> (*relate)(const Op& op, const Value* from, const Value* to,
                                  const Layout& layout) = nullptr;
  // True if the op's tiles may be distributed over the blocks of a cluster.
  bool across = false;
  // True if the op needs all threads in one block: a kernel that contains it runs without clusters.
  bool single_cta = false;
  // True if the blocks of a cluster exchange data for the op.
  bool exchanges = false;
  // True if the op also runs within a warpgroup, whose 128 threads then act as the block. Elementwise ops do.
  bool grouped = false;
  // Restricts `grouped`: returns true for the ops of this primitive that run within a group. Null: all of
  // them.
  bool (*within_group)(const Op& op, const UseCounts& uses) = nullptr;
  // True if the op combines elements into fewer, in any order and layout.
  bool reduces = false;
  // Returns an element of the result, given those of the operands. `moves` is true if it equals the
  // operand's element.
  std::string (*element)(Emitter& emitter, const Op& op, const Elements& operands) = nullptr;
  bool moves = false;
  // Returns true if `element` serves the op as well as the whole tile does. A null function: always.
  bool (*by_elements)(const Op& op) = nullptr;
  // True if what is computed before the op is not deferred behind it: the op may wait, and its result takes
  // registers.
  bool divides_loops = false;
  // For an op that moves elements: the element orders of the operand and of the result. A null
  // function means that both are row-major.
  std::pair<Weights, Weights> (*weights)(const Op& op) = nullptr;
  // Returns the tile that the op moves between memory and registers in vectors. Such an op proposes
  // a layout for the tile.
  const Value* (*accessed)(const Op& op) = nullptr;
};

// Registers a rule: `static const AddLoweringRule gather_{{"gather", …}};`
struct AddLoweringRule {
  explicit AddLoweringRule(const LoweringRule& lowering);
};
// Registers rules of ops that run within a group of warps, and whose layouts nothing relates.
struct AddGroupedRules {
  using Rule = std::pair<std::string_view, void (*)(Emitter&, const Op&)>;
  AddGroupedRules(std::initializer_list<Rule> rules) {
    for (const auto& [name, emit] : rules)
      AddLoweringRule(LoweringRule{.name = name, .emit = emit, .grouped = true});
  }
};
const LoweringRule* find_lowering(std::string_view primitive);
bool has_cuda_body(std::string_view primitive);
bool reduces(const Op& op);
const Value* accessed(const Op& op);  // null: none

std::optional<Layout> related(const Op& op, const Value* from, const Value* to, const Layout& layout);
// The `relate` function of ops whose tiles all have one layout.
std::optional<Layout> same_layout(const Op& op, const Value* from, const Value* to, const Layout& layout);

}  // namespace tile::cuda
