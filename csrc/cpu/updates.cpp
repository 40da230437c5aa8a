// Finds loads whose readers are all steps of the one store to the same place.
#include "cpu/updates.h"

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

// The elementwise steps of the block that a value is made of.
void add_steps(const Value* value, const Block* block, const Blocks& blocks,
               std::unordered_set<const Op*>& steps) {
  const Op* op = value->definition;
  if (!op || blocks.at(op) != block || !op->traits().elementwise || !steps.insert(op).second) return;
  for (const Value* operand : op->operands) add_steps(operand, block, blocks, steps);
}

// A cast may leave its tile in memory, too.
bool read_by(const std::unordered_set<const Op*>& steps, const Users& users, const Value* value) {
  const auto found = users.find(value);
  return found == users.end() || std::all_of(found->second.begin(), found->second.end(), [&](const Op* user) {
           return steps.count(user) && (!user->is("astype") || read_by(steps, users, user->results[0]));
         });
}

bool same_place(const Op& load, const Op& store) {
  return load.operands[0] == store.operands[0] && load.results[0]->type.shape == store.type(1).shape &&
         load.integers("steps") == store.integers("steps") &&
         std::equal(load.operands.begin() + 1, load.operands.end(), store.operands.begin() + 2,
                    store.operands.end());
}

}  // namespace

std::unordered_set<const Op*> updating_loads(const Function& function) {
  Users users;
  std::unordered_map<const Value*, int> writers;
  std::unordered_map<const Value*, std::vector<const Op*>> loads;  // by array
  std::vector<const Op*> stores;
  walk(function.body(), [&](const Op& op) {
    for (const Value* operand : op.operands) {
      users[operand].push_back(&op);
      if (op.traits().writes && operand->type.is_array()) ++writers[root_array(operand)];
    }
    if (op.is("load")) loads[op.operands[0]].push_back(&op);
    if (op.is("store")) stores.push_back(&op);
  });
  std::unordered_set<const Op*> found;
  Blocks blocks;
  if (!stores.empty() && !loads.empty()) find_blocks(function.body(), blocks);
  for (const Op* store : stores) {
    const auto of_array = loads.find(store->operands[0]);
    if (of_array == loads.end() || writers[root_array(store->operands[0])] != 1) continue;
    std::unordered_set<const Op*> steps;
    add_steps(store->operands[1], blocks.at(store), blocks, steps);
    for (const Op* load : of_array->second)
      if (blocks.at(load) == blocks.at(store) && same_place(*load, *store) &&
          read_by(steps, users, load->results[0]))
        found.insert(load);
  }
  return found;
}

}  // namespace tile::cpu
