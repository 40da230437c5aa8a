// Checks a kernel's products and their loads, and places the rings in shared memory.
#include "cuda/async/plan.h"

#include <algorithm>
#include <unordered_set>

#include "cuda/async/epilogue.h"
#include "cuda/staging.h"
#include "ir/walk.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr int64_t alignment = 1024;  // of tiles with a swizzle of 128 bytes
constexpr int most_stages = 12;
constexpr size_t most_axes = 5;  // of a tensor map

int64_t round_up(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool multiplies_on_wgmma(const Op& mma) {
  const DType x = mma.type(0).dtype, y = mma.type(1).dtype;
  return mma.type(0).rank() == 2 && x == y && (x == DType::bf16 || x == DType::f16) &&
         mma.type(2).dtype == DType::f32;
}

// Returns the largest swizzle whose rows divide the width.
int swizzle_of(int64_t width_bytes) {
  for (const int bytes : {128, 64, 32})
    if (width_bytes % bytes == 0) return bytes;
  return 0;
}

// Follows a view to its parameter. Returns false for a slice.
bool follow_views(const Value* array, std::vector<int>& axes, std::vector<Value*>& fixed) {
  const Op* view = array->definition;
  if (!view) {
    for (int axis = 0; axis < array->type.array_rank; ++axis) axes.push_back(axis), fixed.push_back(nullptr);
    return true;
  }
  if (!follow_views(view->operands[0], axes, fixed)) return false;
  if (view->is("index")) {
    const auto count = static_cast<int>(view->operands.size()) - 1;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0) continue;
      if (axes[i] < count)
        fixed[i] = view->operands[static_cast<size_t>(axes[i]) + 1], axes[i] = -1;
      else
        axes[i] -= count;
    }
    return true;
  }
  if (!view->is("permute_array")) return false;
  const auto& order = view->integers("axes");
  for (int& axis : axes)
    if (axis >= 0) axis = static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
  return true;
}

// Finds the parameter of the access's array. Returns false for a slice.
bool follow(const Function& function, const Op& access, CopiedTile& tile) {
  const auto& parameters = function.body().arguments;
  tile.access = &access;
  tile.parameter = static_cast<int>(
      std::find(parameters.begin(), parameters.end(), root_array(access.operands[0])) - parameters.begin());
  return follow_views(access.operands[0], tile.axes, tile.fixed);
}
// Returns true if a tensor map can describe the array.
bool has_map(const ArrayFacts& facts) {
  return facts.unit >= 0 && facts.aligned && facts.small && !facts.wide && facts.forward;
}

// Returns true if the store's value is computed from sums of products element by element. The sum of several
// chains of products is not: its loop adds them.
bool stores_sums(const Op& store) {
  std::vector<const Value*> open{store.operands[1]};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    const Op* made = value->definition;
    if (!made || !is_tile(value) || !seen.insert(value).second) continue;
    if (made->is("for")) {
      const auto number =
          std::find(made->results.begin(), made->results.end(), value) - made->results.begin();
      if (is_sum_of_products(*made, static_cast<size_t>(number))) return true;
    }
    if (made->traits().elementwise || made->is("extract"))
      open.insert(open.end(), made->operands.begin(), made->operands.end());
  }
  return false;
}
// Returns true if the store may end later than the ops behind it: it runs once for each block of the grid, it
// is the only op that writes its part of the array, and of that only the epilogue's load of the same panel,
// which has the layout of the sums, reads before it.
bool may_end_later(const Function& function, const Op& store) {
  const Value* array = root_array(store.operands[0]);
  const Op* around = store.parent->parent;
  const bool once = !around || around->parent == &function.body();  // the loop over blocks
  bool ends_later = once, before = true;
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
    if (!is_other_panel && !is_earlier_load) ends_later = false;
  });
  return ends_later;
}

}  // namespace

int64_t AsyncRing::copied_bytes() const {
  int64_t bytes = 0;
  for (const RingTile& tile : tiles) bytes += tile.layout.stage_bytes();
  return bytes;
}

bool AsyncPlan::decline(const Op& op, const std::string& reason) {
  why_not = op.location.known() ? str(op.location, ": ", reason) : reason;
  return false;
}

AsyncPlan::AsyncPlan(const Function& function, const KernelArrays& arrays, const Target& target) {
  bool any = false, fits = true;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma") || !fits) return;
    any = true;
    fits = add_product(function, arrays, op);
  });
  if (!any) why_not = "the kernel has no product";
  if (!any || !fits) return;
  add_stores(function, arrays);
  place(target);
}

bool AsyncPlan::add_product(const Function& function, const KernelArrays& arrays, const Op& mma) {
  if (!multiplies_on_wgmma(mma))
    return decline(mma,
                   str("wgmma does not multiply ", mma.type(0), " by ", mma.type(1), " onto ", mma.type(2)));
  const int64_t m = mma.type(2).shape[0], n = mma.type(2).shape[1], k = mma.type(0).shape[1];
  if (m % block_rows != 0 || n % 8 != 0 || n > most_columns || k % 16 != 0)
    return decline(mma, str("the tile of ", m, "x", n, "x", k,
                            " is no multiple of 64x8x16, or has more than 256 columns"));
  const auto blocks = static_cast<int>(m / block_rows);
  const int count = blocks % 2 == 0 ? 2 : blocks == 3 ? 3 : 1;
  if (blocks / count * n / 2 > 128 || (count == 3 && n > 128))
    return decline(mma, str("the sums of ", m, "x", n, " do not fit the registers of ", count, " groups"));
  if (groups && (groups != count || row_blocks != blocks / count))
    return decline(mma, "products of one kernel have the same number of rows");
  groups = count, row_blocks = blocks / count;
  const Op* loop = mma.parent->parent;
  if (!loop || !loop->is("for")) return decline(mma, "the product is not in a counted loop");
  for (const Op* around = loop->parent->parent; around; around = around->parent->parent)
    if (!around->is("for")) return decline(mma, str("the product's loop is inside of a ", around->name()));
  // The sum is carried by the loop and used only by its product.
  const Block& body = loop->region();
  const auto argument = std::find(body.arguments.begin(), body.arguments.end(), mma.operands[2]);
  const auto number = argument - body.arguments.begin();
  const UseCounts uses = count_uses(body);
  if (argument == body.arguments.end() ||
      body.terminator()->operands[static_cast<size_t>(number - 1)] != mma.results[0] ||
      uses.at(mma.results[0]) != 1 || uses.at(mma.operands[2]) != 1)
    return decline(mma, "the loop uses the sum in other ways than adding to it");
  // A product that reads its accumulator's first value from other instructions would make ptxas run all
  // products of the loop one after another.
  const auto initial = constant_of(loop->operands[static_cast<size_t>(number + 2)]);
  if (!initial || initial->floating != 0) return decline(mma, "the sum does not start at zero");
  const Users users = users_of(body);
  for (const auto& op : body.ops) {
    if (op->is("load") && !only_multiplied(op->results[0], users, multiplies_on_wgmma))
      return decline(*op, "the loop of a product also uses a loaded tile in other ways");
    const bool computes = !op->results.empty() && is_tile(op->results[0]) && !op->is("load") &&
                          !op->is("mma") && !op->is("permute");
    if (computes || !op->regions.empty() || op->traits().acts())
      return decline(*op, str("the loop of a product contains ", op->name()));
  }
  return add_tile(function, arrays, mma, 0) && add_tile(function, arrays, mma, 1);
}

bool AsyncPlan::add_tile(const Function& function, const KernelArrays& arrays, const Op& mma,
                         size_t operand) {
  const MmaOperand read = mma_operand(mma.operands[operand]);
  const Op* load = read.value->definition;
  const Op* loop = mma.parent->parent;
  const char* which = operand ? "right" : "left";
  if (!load || !load->is("load") || load->parent != mma.parent)
    return decline(mma, str("the ", which, " operand is not loaded in the product's loop"));
  if (load->number("pad") != 0) return decline(*load, "the tile is padded with another number than 0");
  const ArrayFacts facts = arrays.facts(load->operands[0]);
  RingTile tile;
  tile.transposed = read.transposed;
  if (!follow(function, *load, tile))
    return decline(*load, str("the ", which, " operand is a slice of an array"));
  if (tile.axes.size() > most_axes)
    return decline(*load, str("the array has ", tile.axes.size(), " axes; the copy unit takes ", most_axes));
  if (!facts.constant) return decline(*load, "the kernel writes the array");
  if (!has_map(facts))
    return decline(*load, str("the ", which,
                              " operand's array is not contiguous along an axis, not aligned to "
                              "16 bytes, too large, empty, or has strides of 0 or less"));
  const Type& type = load->results[0]->type;
  const int bytes = info(type.dtype).bytes;
  const auto unit = static_cast<size_t>(facts.unit);
  const int64_t rows = type.shape[1 - unit], width = type.shape[unit];
  const int swizzle = swizzle_of(width * bytes);
  if (rows > 256 || rows % 8 != 0 || !swizzle)
    return decline(*load, str("a tile of ", type, " does not fit the copy unit's boxes"));
  tile.layout = in_panels(rows, width, bytes, swizzle, unit == 1 ? Major::columns : Major::rows);
  // Along the axis of rows or columns, wgmma reads panels of 64 elements for each block of 64 rows.
  const bool k_major = (unit == 1) == (operand == 0) ? !read.transposed : read.transposed;
  if (!k_major && operand == 0 && swizzle != 128)
    return decline(*load, "the left operand's rows are no multiple of 64");
  auto ring =
      std::find_if(rings.begin(), rings.end(), [&](const AsyncRing& each) { return each.loop == loop; });
  if (ring == rings.end()) ring = rings.insert(rings.end(), AsyncRing{.loop = loop});
  for (const RingTile& known : ring->tiles)
    if (known.access == load)
      return known.transposed == tile.transposed || decline(mma, "products read one tile in two ways");
  tile.offset = ring->stage_bytes;
  ring->stage_bytes += round_up(tile.layout.stage_bytes());
  ring->tiles.push_back(std::move(tile));
  return true;
}

// Finds the stores that go through panels; all others are written by each thread.
void AsyncPlan::add_stores(const Function& function, const KernelArrays& arrays) {
  walk(function.body(), [&](const Op& op) {
    if (!op.is("store") || op.type(1).rank() != 2) return;
    const Type& type = op.type(1);
    const ArrayFacts facts = arrays.facts(op.operands[0]);
    const int bytes = info(type.dtype).bytes, swizzle = swizzle_of(type.shape[1] * bytes);
    PanelStore store;
    const bool fits = bytes == 2 && swizzle && type.shape[0] == int64_t{block_rows} * row_blocks * groups &&
                      type.shape[1] <= most_columns && facts.unit == 1 && has_map(facts);
    if (!fits || !stores_sums(op) || !may_end_later(function, op)) return;
    if (!follow(function, op, store) || store.axes.size() > most_axes) return;
    store.layout = in_panels(block_rows, type.shape[1], bytes, swizzle);
    stores.push_back(std::move(store));
  });
}

void AsyncPlan::place(const Target& target) {
  int64_t each = 0;
  for (const AsyncRing& ring : rings) each += ring.stage_bytes;
  const int64_t barriers = alignment;
  int64_t panels = stores.empty() ? 0 : int64_t{groups} * panel_buffers * panel_bytes;
  if (target.shared_bytes - barriers - panels < 3 * each) stores.clear(), panels = 0;
  const auto stages =
      static_cast<int>(std::min<int64_t>((target.shared_bytes - barriers - panels) / each, most_stages));
  if (stages < 2) {
    why_not =
        str("two stages of ", each, " bytes do not fit the ", target.shared_bytes, " bytes of shared memory");
    return;
  }
  int64_t offset = 0;
  for (AsyncRing& ring : rings) {
    ring.stages = stages;
    ring.offset = offset;
    offset += stages * ring.stage_bytes;
  }
  int count = 0;
  for (PanelStore& store : stores) {
    store.first = count;
    count += row_blocks * static_cast<int>(store.layout.panels());
  }
  if (!stores.empty()) stores[0].waits_all = count % panel_buffers != 0;
  panels_offset = offset;
  offset += panels;
  for (AsyncRing& ring : rings) {
    ring.full = offset;
    ring.empty = offset + 8 * stages;
    offset += 16 * stages;
  }
  shared_bytes = offset;
}

Layout AsyncPlan::accumulator(const Shape& shape) const {
  const auto columns = static_cast<int>(shape[1]);
  return Layout(shape, {{Level::reg, 1, 2, 1, 1},
                        {Level::reg, 2, 2, 0, 8},
                        {Level::reg, 4, columns / 8, 1, 8},
                        {Level::reg, columns / 2, row_blocks, 0, block_rows},
                        {Level::lane, 1, 4, 1, 2},
                        {Level::lane, 4, 8, 0, 1},
                        {Level::warp, 1, 4, 0, 16},
                        {Level::group, 1, groups, 0, int64_t{block_rows} * row_blocks}});
}

}  // namespace tile::cuda
