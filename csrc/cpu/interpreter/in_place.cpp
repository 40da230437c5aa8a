// Finds in-place loads: all their readers are steps of stores into their array, one of which writes the same
// elements.
#include "cpu/interpreter/in_place.h"

#include <algorithm>
#include <unordered_map>

#include "ir/walk.h"

namespace tile::cpu {
namespace {

using Users = std::unordered_map<const Value*, std::vector<const Op*>>;

using Blocks = std::unordered_map<const Op*, const Block*>;

void find_blocks(const Block& block, Blocks& blocks) {
  for (const auto& op : block.ops) {
    blocks.emplace(op.get(), &block);
    for (const auto& region : op->regions) find_blocks(*region, blocks);
  }
}

// Collects the block's elementwise ops that compute a value.
void add_steps(const Value* value, const Block* block, const Blocks& blocks,
               std::unordered_set<const Op*>& steps) {
  const Op* op = value->definition;
  if (!op || blocks.at(op) != block || !op->traits().elementwise || !steps.insert(op).second) return;
  for (const Value* operand : op->operands) add_steps(operand, block, blocks, steps);
}

// Returns true if all readers of the value are among `steps`, and adds them to `readers`. A cast may stay in
// memory too, so its readers count as well.
bool read_by(const std::unordered_set<const Op*>& steps, const Users& users, const Value* value,
             std::unordered_set<const Op*>& readers) {
  const auto found = users.find(value);
  return found == users.end() || std::all_of(found->second.begin(), found->second.end(), [&](const Op* user) {
           readers.insert(user);
           return steps.count(user) &&
                  (!user->is("astype") || read_by(steps, users, user->results[0], readers));
         });
}

bool same_place(const Op& load, const Op& store) {
  return load.operands[0] == store.operands[0] && load.results[0]->type.shape == store.type(1).shape &&
         load.integers("steps") == store.integers("steps") &&
         std::equal(load.operands.begin() + 1, load.operands.end(), store.operands.begin() + 2,
                    store.operands.end());
}

// Returns true if the stored value is computed, not only moved: another store might overwrite a moved value's
// source before this store runs.
bool computes(const Op& store, const Block* block, const Blocks& blocks) {
  const Op* op = store.operands[1]->definition;
  while (op && op->is("astype")) op = op->operands[0]->definition;
  return op && blocks.at(op) == block && op->traits().elementwise;
}

// Returns for each op of a block how many memory-ordering ops precede it. If two ops have the same count,
// there is none between them.
std::unordered_map<const Op*, int> orders_before(const Block& block) {
  std::unordered_map<const Op*, int> before;
  int orders = 0;
  for (const auto& op : block.ops) {
    before.emplace(op.get(), orders);
    orders += effects_of(*op).barrier;
  }
  return before;
}

bool all_disjoint(const std::vector<const Op*>& stores) {
  for (size_t i = 0; i < stores.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (!apart(stores[i]->operands[0], stores[k]->operands[0])) return false;
  return true;
}

}  // namespace

InPlaceLoads find_in_place(const Function& function) {
  Users users;
  std::unordered_map<const Value*, std::vector<const Op*>> writers, loads;  // by root array
  walk(function.body(), [&](const Op& op) {
    for (const Value* operand : op.operands) {
      users[operand].push_back(&op);
      if (op.traits().writes && operand->type.is_array()) writers[root_array(operand)].push_back(&op);
    }
    if (op.is("load")) loads[root_array(op.operands[0])].push_back(&op);
  });
  InPlaceLoads found;
  Blocks blocks;
  std::unordered_map<const Block*, std::unordered_map<const Op*, int>> orders;
  if (!writers.empty() && !loads.empty()) find_blocks(function.body(), blocks);
  for (const auto& [array, stores] : writers) {
    const auto of_array = loads.find(array);
    if (of_array == loads.end()) continue;
    const Block* block = blocks.at(stores[0]);
    const bool one = stores.size() == 1;
    const auto fits = [&](const Op* op) {
      return op->is("store") && blocks.at(op) == block && (one || computes(*op, block, blocks));
    };
    if (!std::all_of(stores.begin(), stores.end(), fits) || !all_disjoint(stores)) continue;
    std::unordered_set<const Op*> steps, readers;
    for (const Op* store : stores) add_steps(store->operands[1], block, blocks, steps);
    InPlaceLoads::Several several;
    for (const Op* load : of_array->second) {
      std::unordered_set<const Op*> of_load;
      const auto stored = [&](const Op* store) { return same_place(*load, *store); };
      if (blocks.at(load) != block || std::none_of(stores.begin(), stores.end(), stored) ||
          !read_by(steps, users, load->results[0], of_load))
        continue;
      // After an op that orders memory, another block may have overwritten the value that the load must
      // return.
      auto [known, first] = orders.try_emplace(block);
      if (first) known->second = orders_before(*block);
      const auto ordered = [&](const Op* reader) {
        return known->second.at(reader) != known->second.at(load);
      };
      if (std::any_of(of_load.begin(), of_load.end(), ordered)) continue;
      found.loads.insert(load);
      several.loads.insert(load);
      several.readers.merge(of_load);
    }
    if (one || several.loads.empty()) continue;
    several.stores.insert(stores.begin(), stores.end());
    found.several.push_back(std::move(several));
  }
  return found;
}

}  // namespace tile::cpu
