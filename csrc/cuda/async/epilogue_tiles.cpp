// Checks the accesses of epilogues.
#include "cuda/async/epilogue_tiles.h"

#include <algorithm>
#include <unordered_set>

#include "cuda/async/epilogue.h"
#include "cuda/layout.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

constexpr int64_t block_rows = 64;

// Returns true if the store's value is computed from products element by element, or from their sums.
bool stores_sums(const Op& store) {
  std::vector<const Value*> open{store.operands[1]};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    const Op* made = value->definition;
    if (!made || !is_tile(value) || !seen.insert(value).second) continue;
    if (made->is("mma")) return true;
    if (made->is("for")) {
      const auto number =
          std::find(made->results.begin(), made->results.end(), value) - made->results.begin();
      if (is_sum_of_products(*made, static_cast<size_t>(number))) return true;
      open.push_back(made->region().terminator()->operands[static_cast<size_t>(number)]);
    }
    if (made->traits().elementwise || made->is("extract"))
      open.insert(open.end(), made->operands.begin(), made->operands.end());
  }
  return false;
}
// Returns true if the op runs once for each block of the grid, over which a persistent kernel loops.
bool runs_once(const Function& function, const Op& op, bool persistent) {
  const Op* around = op.parent->parent;
  return !around || (persistent && around->parent == &function.body());
}
// Returns true if both stores write tiles of one view, and their indices along an axis differ by a constant.
bool store_apart(const Op& one, const Op& other) {
  if (!one.is("store") || !other.is("store") || one.operands[0] != other.operands[0] ||
      one.type(1).shape != other.type(1).shape || one.integers("steps") != one.type(1).shape ||
      other.integers("steps") != one.type(1).shape)
    return false;
  const auto is_behind = [](const Value* index, const Value* base) {
    const Op* made = index->definition;
    if (!made || !made->is("add")) return false;
    const bool swapped = made->operands[1] == base;
    const auto distance = constant_of(made->operands[swapped ? 0 : 1]);
    return made->operands[swapped ? 1 : 0] == base && distance && distance->integer != 0;
  };
  for (size_t i = 2; i < one.operands.size(); ++i)
    if (is_behind(one.operands[i], other.operands[i]) || is_behind(other.operands[i], one.operands[i]))
      return true;
  return false;
}
// Returns true if the store may end later than the ops behind it: it runs once for each block of the grid, it
// is the only op that writes its part of the array, and of that only the epilogue's load of the same panel,
// which has the layout of the sums, reads before it.
bool may_end_later(const Function& function, const Op& store, bool persistent) {
  const Value* array = root_array(store.operands[0]);
  bool ends_later = runs_once(function, store, persistent), before = true;
  walk(function.body(), [&](const Op& op) {
    if (&op == &store) {
      before = false;
      return;
    }
    const bool accesses = (op.traits().reads || op.traits().writes) && !op.operands.empty() &&
                          op.operands[0]->type.is_array() && root_array(op.operands[0]) == array;
    if (!accesses) return;
    const bool both = op.parent == store.parent && op.has("panel") && store.has("panel");
    const bool is_other_panel = both && op.integer("panel") != store.integer("panel");
    const bool is_earlier_load = both && before && !op.traits().writes;
    if (!is_other_panel && !is_earlier_load && !store_apart(op, store)) ends_later = false;
  });
  return ends_later;
}

// Returns true if scalars decide the value that a producer computes from what it has without any tile.
bool is_known_early(const Value* value) {
  const Op* made = value->definition;
  if (!made) return true;
  return made->traits().pure() && made->regions.empty() && !is_tile(value) &&
         std::all_of(made->operands.begin(), made->operands.end(), is_known_early);
}
// Returns the loads whose tiles elementwise ops join with the sums that are stored.
std::unordered_set<const Op*> joined_loads(const std::vector<PanelStore>& stores) {
  std::unordered_set<const Op*> loads;
  std::unordered_set<const Value*> seen;
  for (const PanelStore& store : stores) {
    std::vector<const Value*> open{store.access->operands[1]};
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      const Op* made = value->definition;
      if (!made || !is_tile(value) || made->parent != store.access->parent || !seen.insert(value).second)
        continue;
      if (made->is("load") && made->operands.size() == made->integers("steps").size() + 1) loads.insert(made);
      if (made->traits().elementwise) open.insert(open.end(), made->operands.begin(), made->operands.end());
    }
  }
  return loads;
}
// Returns true if the load takes what one of the stores replaces: each panel is loaded before it is stored,
// and by no other block of the grid.
bool is_replaced(const Op& load, const std::vector<PanelStore>& stores) {
  return std::any_of(stores.begin(), stores.end(), [&](const PanelStore& store) {
    const Op& by = *store.access;
    return by.operands[0] == load.operands[0] && by.parent == load.parent && by.has("panel") &&
           load.has("panel") && by.integer("panel") == load.integer("panel");
  });
}

}  // namespace

std::vector<PanelStore> panel_stores(const Function& function, const KernelArrays& arrays,
                                     const EpilogueShape& shape) {
  std::vector<PanelStore> stores;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("store") || op.type(1).rank() != 2) return;
    const Type& type = op.type(1);
    const ArrayFacts facts = arrays.facts(op.operands[0]);
    const int bytes = info(type.dtype).bytes, swizzle = swizzle_of(type.shape[1] * bytes);
    PanelStore store;
    const bool fits = bytes == 2 && swizzle && type.shape[0] == shape.rows &&
                      type.shape[1] <= shape.most_columns && facts.unit == 1;
    if (!fits || !stores_sums(op) || !may_end_later(function, op, shape.persistent)) return;
    store.by_warps = !has_map(arrays, op.operands[0]) || !store.follow(function, op) ||
                     store.dimensions() > CopiedTile::most_dimensions;
    store.access = &op;
    store.layout = in_panels(block_rows, type.shape[1], bytes, swizzle);
    stores.push_back(std::move(store));
  });
  // The copy unit may read a buffer until another panel has been stored by it, so a kernel does not mix the
  // two ways: warps' stores are then left to threads.
  if (!std::all_of(stores.begin(), stores.end(), [](const PanelStore& store) { return store.by_warps; }))
    std::erase_if(stores, [](const PanelStore& store) { return store.by_warps; });
  return stores;
}

std::vector<CopiedTile> epilogue_loads(const Function& function, const KernelArrays& arrays,
                                       const EpilogueShape& shape, const std::vector<PanelStore>& stores) {
  const std::unordered_set<const Op*> joined = joined_loads(stores);
  std::vector<CopiedTile> loads;
  walk(function.body(), [&](const Op& op) {
    if (!joined.count(&op)) return;
    const Type& type = op.results[0]->type;
    const ArrayFacts facts = arrays.facts(op.operands[0]);
    const int bytes = info(type.dtype).bytes, swizzle = swizzle_of(type.shape.back() * bytes);
    // Outside of the array the copy unit writes zeros.
    const bool fits = type.rank() == 2 && bytes == 2 && swizzle && type.shape[0] == shape.rows &&
                      op.number("pad") == 0 && facts.unit == 1 && has_map(arrays, op.operands[0]) &&
                      (facts.constant || is_replaced(op, stores));
    CopiedTile load;
    if (!fits || !load.follow(function, op) || load.dimensions() > CopiedTile::most_dimensions) return;
    const auto known = [](const Value* index) { return !index || is_known_early(index); };
    if (!std::all_of(op.operands.begin() + 1, op.operands.end(), known) ||
        !std::all_of(load.fixed.begin(), load.fixed.end(), known))
      return;
    load.layout = in_panels(type.shape[0], type.shape[1], bytes, swizzle);
    loads.push_back(std::move(load));
  });
  const auto differs = [&](const CopiedTile& load) { return !(load.layout == loads[0].layout); };
  if (std::any_of(loads.begin(), loads.end(), differs)) loads.clear();
  return loads;
}

}  // namespace tile::cuda
