// Follows tiles through elementwise ops to products, and checks their loads.
#include "cuda/async/loop_tiles.h"

#include <algorithm>
#include <unordered_set>

#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

constexpr int64_t most_box = 256, least_columns = 16;

// Returns true if the tile and a product's sums, or its left operand, meet in elementwise ops of the block.
bool meets_product(const Op& load, const Users& users) {
  const Shape& shape = load.results[0]->type.shape;
  std::vector<const Value*> open{load.results[0]};
  std::unordered_set<const Value*> seen;
  bool meets = false;
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    if (value->type.shape != shape || !seen.insert(value).second) continue;
    const Op* made = value->definition;
    if (made && made->parent == load.parent) {
      meets = meets || made->is("mma");
      if (made->traits().elementwise) open.insert(open.end(), made->operands.begin(), made->operands.end());
    }
    const auto found = users.find(value);
    if (found == users.end()) continue;
    for (const Op* user : found->second) {
      if (user->parent != load.parent) continue;
      meets = meets || (user->is("mma") && (user->operands[0] == value || user->operands[2] == value));
      if (user->traits().elementwise) open.push_back(user->results[0]);
    }
  }
  return meets;
}

// Describes the load's tile. Returns false if the copy unit cannot move it ahead.
bool describe(const Function& function, const KernelArrays& arrays, const Op& load, CopiedTile& tile) {
  const Type& type = load.results[0]->type;
  const ArrayFacts facts = arrays.facts(load.operands[0]);
  std::vector<const Op*> address;
  // Outside of the array the copy unit writes zeros.
  if (load.number("pad") != 0 || !facts.constant || !has_map(arrays, load.operands[0]) ||
      !tile.follow(function, load) || tile.dimensions() > CopiedTile::most_dimensions ||
      !address_ops(load, *load.parent, address, &arrays))
    return false;
  const int bytes = info(type.dtype).bytes;
  const auto unit = static_cast<size_t>(facts.unit);
  const int64_t rows = type.shape[1 - unit], width = type.shape[unit];
  const int swizzle = swizzle_of(width * bytes);
  if (rows > most_box || rows % 8 != 0 || !swizzle) return false;
  tile.layout = in_panels(rows, width, bytes, swizzle, unit == 1 ? Major::columns : Major::rows);
  return true;
}

}  // namespace

std::vector<CopiedTile> loop_tiles(const Function& function, const KernelArrays& arrays,
                                   const std::function<bool(const Shape&)>& grouped) {
  const Users users = users_of(function.body());
  std::vector<CopiedTile> tiles;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("load") || op.results[0]->type.rank() != 2) return;
    const Type& type = op.results[0]->type;
    const int bytes = info(type.dtype).bytes;
    if ((bytes != 2 && bytes != 4) || type.shape[1] % least_columns != 0 || !grouped(type.shape) ||
        !meets_product(op, users))
      return;
    CopiedTile tile;
    if (describe(function, arrays, op, tile)) tiles.push_back(std::move(tile));
  });
  return tiles;
}

}  // namespace tile::cuda
