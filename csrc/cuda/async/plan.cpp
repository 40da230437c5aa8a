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
// Elements of a tile that threads load in a loop of products: a row, or so many a thread.
constexpr int64_t most_row = 256, most_a_thread = 2;
constexpr size_t most_axes = 5;    // of a tensor map
constexpr int least_columns = 32;  // of a group, where groups divide columns

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
    if (!is_other_panel && !is_earlier_load) ends_later = false;
  });
  return ends_later;
}

}  // namespace

void RingUse::add(const Op& load) {
  loads.push_back(&load);
  for (const auto& op : block->ops)
    if (std::find(loads.begin(), loads.end(), op.get()) != loads.end()) last = op.get();
}
void AsyncRing::add(RingTile tile) {
  tile.offset = stage_bytes;
  stage_bytes += round_up(tile.layout.stage_bytes());
  tiles.push_back(std::move(tile));
}
int64_t AsyncRing::copied_bytes() const {
  int64_t bytes = 0;
  for (const RingTile& tile : tiles) bytes += tile.layout.stage_bytes();
  return bytes;
}

bool AsyncPlan::decline(const Op& op, const std::string& reason) {
  why_not = op.location.known() ? str(op.location, ": ", reason) : reason;
  return false;
}

AsyncPlan::AsyncPlan(const Function& function, const KernelArrays& arrays, const Target& target,
                     bool persistent)
    : persistent(persistent) {
  std::vector<const Op*> products;
  walk(function.body(), [&](const Op& op) {
    if (op.is("mma")) products.push_back(&op);
  });
  if (products.empty()) {
    why_not = "the kernel has no product";
    return;
  }
  const auto all = [&](auto holds) {
    return std::all_of(products.begin(), products.end(), [&](const Op* mma) { return holds(*mma); });
  };
  if (!choose_groups(products) || !all([&](const Op& mma) { return fits(mma); })) return;
  if (!all([&](const Op& mma) { return add_continued(function, arrays, mma); })) {
    why_not.clear();
    rings.clear();
    awaits = true;
    if (!all([&](const Op& mma) { return add_awaited(function, arrays, mma); })) return;
  }
  add_stores(function, arrays);
  place(function, target);
}

// Finds the number of groups: the product with the most rows decides.
bool AsyncPlan::choose_groups(const std::vector<const Op*>& products) {
  const Op& largest = **std::max_element(products.begin(), products.end(), [](const Op* a, const Op* b) {
    return a->type(2).shape[0] < b->type(2).shape[0];
  });
  for (const Op* mma : products)
    if (!multiplies_on_wgmma(*mma))
      return decline(
          *mma, str("wgmma does not multiply ", mma->type(0), " by ", mma->type(1), " onto ", mma->type(2)));
  const auto blocks = static_cast<int>(largest.type(2).shape[0] / block_rows);
  groups = blocks > 0 && blocks % 2 == 0 ? 2 : blocks == 3 ? 3 : 1;
  row_blocks = std::max(blocks / groups, 1);
  return true;
}

// Checks what all products must be.
bool AsyncPlan::fits(const Op& mma) {
  const Shape& shape = mma.type(2).shape;
  const int64_t m = shape[0], n = shape[1], k = mma.type(0).shape[1];
  if (m % block_rows != 0 || n % 8 != 0 || n > most_columns || k % 16 != 0)
    return decline(mma, str("the tile of ", m, "x", n, "x", k,
                            " is no multiple of 64x8x16, or has more than 256 columns"));
  // A group's columns begin at a panel of the right operand, or in its middle.
  if (m != int64_t{block_rows} * row_blocks * groups &&
      !(divides_columns(shape) && n % (groups * least_columns) == 0))
    return decline(mma, str("the product has ", m, "x", n, " sums; those of ", groups, " groups have ",
                            block_rows * row_blocks * groups, " rows, or ", block_rows * row_blocks,
                            " and a multiple of ", groups * least_columns, " columns"));
  const int64_t sums = int64_t{row_blocks} * (divides_columns(shape) ? n / groups : n) / 2;
  if (sums > 128 || (groups == 3 && n > 128))
    return decline(mma, str("the sums of ", m, "x", n, " do not fit the registers of ", groups, " groups"));
  for (const Op* around = mma.parent->parent; around; around = around->parent->parent)
    if (!around->is("for")) return decline(mma, str("the product is inside of a ", around->name()));
  return true;
}

// Adds a product whose loop does nothing but add such products to their sums: the next iteration's may start
// before it has ended.
bool AsyncPlan::add_continued(const Function& function, const KernelArrays& arrays, const Op& mma) {
  const Op* loop = mma.parent->parent;
  if (!loop || !loop->is("for")) return false;
  // The sum is carried by the loop and used only by its product.
  const Block& body = loop->region();
  const auto argument = std::find(body.arguments.begin(), body.arguments.end(), mma.operands[2]);
  const auto number = argument - body.arguments.begin();
  const UseCounts uses = count_uses(body);
  if (argument == body.arguments.end() ||
      body.terminator()->operands[static_cast<size_t>(number - 1)] != mma.results[0] ||
      uses.at(mma.results[0]) != 1 || uses.at(mma.operands[2]) != 1)
    return false;
  // A product that reads its accumulator's first value from other instructions would make ptxas run all
  // products of the loop one after another.
  const auto initial = constant_of(loop->operands[static_cast<size_t>(number + 2)]);
  if (!initial || initial->floating != 0) return false;
  const Users users = users_of(body);
  for (const auto& op : body.ops) {
    if (op->is("load") && !only_multiplied(op->results[0], users, multiplies_on_wgmma)) return false;
    const bool computes = !op->results.empty() && is_tile(op->results[0]) && !op->is("load") &&
                          !op->is("mma") && !op->is("permute");
    if (computes || !op->regions.empty() || op->traits().acts()) return false;
  }
  for (size_t operand = 0; operand < 2; ++operand) {
    const Op* load = mma_operand(mma.operands[operand]).value->definition;
    if (!load || !load->is("load") || load->parent != mma.parent) return false;
    RingTile tile;
    if (!describe(function, arrays, mma, operand, tile)) return false;
    auto ring =
        std::find_if(rings.begin(), rings.end(), [&](const AsyncRing& each) { return each.loop == loop; });
    if (ring == rings.end()) {
      ring = rings.insert(rings.end(), AsyncRing{.loop = loop});
      ring->uses.push_back({.block = &body});
    }
    RingUse& use = ring->uses[0];
    if (std::find(use.loads.begin(), use.loads.end(), load) == use.loads.end()) {
      use.add(*load);
      ring->add(std::move(tile));
    }
  }
  return true;
}

// Adds a product that ends in its block. The ring of a tile has no other one: products of a block may read
// several rings at different times.
bool AsyncPlan::add_awaited(const Function& function, const KernelArrays& arrays, const Op& mma) {
  if (groups == 1)
    return decline(mma, str("the loop computes more than products, and nothing runs while the one group of ",
                            mma.type(2).shape[0], " rows awaits them"));
  const Users users = users_of(function.body());
  for (size_t operand = 0; operand < 2; ++operand) {
    const MmaOperand read = mma_operand(mma.operands[operand]);
    const Op* load = read.value->definition;
    const bool is_loaded = load && load->is("load");
    if (operand == 0 && !is_loaded) {
      if (!add_computed(mma, read)) return false;
      continue;
    }
    if (!is_loaded) return decline(mma, "the right operand is not loaded");
    if (!only_multiplied(load->results[0], users, multiplies_on_wgmma))
      return decline(*load, "other ops than products use the tile of an operand");
    RingTile tile;
    if (!describe(function, arrays, mma, operand, tile)) return false;
    const auto is_same = [&](const AsyncRing& ring) {
      const Op& known = *ring.tiles[0].access;
      return known.operands[0] == load->operands[0] && known.results[0]->type == load->results[0]->type &&
             known.integers("steps") == load->integers("steps");
    };
    const auto has_use = [&](const AsyncRing& ring) {
      return std::any_of(ring.uses.begin(), ring.uses.end(),
                         [&](const RingUse& use) { return use.block == load->parent; });
    };
    const auto has_load = [&](const AsyncRing& ring) {
      return std::any_of(ring.uses.begin(), ring.uses.end(),
                         [&](const RingUse& use) { return use.loads[0] == load; });
    };
    if (std::any_of(rings.begin(), rings.end(), has_load)) continue;
    auto ring = std::find_if(rings.begin(), rings.end(),
                             [&](const AsyncRing& each) { return is_same(each) && !has_use(each); });
    if (ring == rings.end()) {
      ring = rings.insert(rings.end(), AsyncRing{});
      ring->add(std::move(tile));
    }
    ring->uses.push_back({.block = load->parent});
    ring->uses.back().add(*load);
  }
  // Loads of other tiles would not run ahead.
  const Op* loop = mma.parent->parent;
  if (!loop || (persistent && !loop->parent->parent)) return true;
  const int64_t most = std::max(most_row, int64_t{groups} * group_threads * most_a_thread);
  for (const auto& op : mma.parent->ops)
    if (op->is("load") && is_tile(op->results[0]) && element_count(op->results[0]->type.shape) > most &&
        !only_multiplied(op->results[0], users, multiplies_on_wgmma))
      return decline(*op, "the loop of a product loads a tile that is no operand");
  return true;
}

// Adds a left operand that is computed. A group has its rows in registers; it reads what other groups have
// computed from shared memory.
bool AsyncPlan::add_computed(const Op& mma, const MmaOperand& read) {
  const Type& type = read.value->type;
  if (!read.transposed)
    return !divides_columns(type.shape) ||
           decline(mma, str("the left operand is computed as ", type, ", so that no group has all of it"));
  const int bytes = info(type.dtype).bytes;
  if (type.shape[0] != int64_t{block_rows} * row_blocks * groups || type.shape[1] * bytes % 128 != 0)
    return decline(mma, str("the left operand is computed as ", type, " and then transposed"));
  operands.push_back({.mma = &mma, .layout = in_panels(type.shape[0], type.shape[1], bytes, 128)});
  return true;
}

// Describes the tile of an operand that is loaded.
bool AsyncPlan::describe(const Function& function, const KernelArrays& arrays, const Op& mma, size_t operand,
                         RingTile& tile) {
  const MmaOperand read = mma_operand(mma.operands[operand]);
  const Op* load = read.value->definition;
  const char* which = operand ? "right" : "left";
  if (load->number("pad") != 0) return decline(*load, "the tile is padded with another number than 0");
  const ArrayFacts facts = arrays.facts(load->operands[0]);
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
    if (!fits || !stores_sums(op) || !may_end_later(function, op, persistent)) return;
    if (!follow(function, op, store) || store.axes.size() > most_axes) return;
    store.layout = in_panels(block_rows, type.shape[1], bytes, swizzle);
    stores.push_back(std::move(store));
  });
}

// Returns true if loops fill the ring, other than the loop over the grid.
bool AsyncPlan::is_repeated(const AsyncRing& ring, const Function& function) const {
  return std::any_of(ring.uses.begin(), ring.uses.end(), [&](const RingUse& use) {
    const Op* loop = use.block->parent;
    return loop && (!persistent || loop->parent != &function.body());
  });
}

// Gives every ring as many stages as fit. Rings that loops fill have two at least, where products go on from
// iteration to iteration; others have a second one if the loops' rings have two.
void AsyncPlan::place(const Function& function, const Target& target) {
  int64_t room = target.shared_bytes - alignment;  // the barriers take the rest
  for (const SharedOperand& operand : operands) room -= shared_buffers * operand.layout.stage_bytes();
  int64_t once = 0, repeated = 0;
  for (const AsyncRing& ring : rings) (is_repeated(ring, function) ? repeated : once) += ring.stage_bytes;
  int64_t panels = stores.empty() ? 0 : int64_t{groups} * panel_buffers * panel_bytes;
  if (room - panels < once + (awaits ? 2 : 3) * repeated) stores.clear(), panels = 0;
  if (room - once < 2 * repeated) {
    why_not = str("two stages of ", repeated, " bytes", once ? str(" and one of ", once) : "",
                  " do not fit the ", target.shared_bytes, " bytes of shared memory");
    return;
  }
  const int second = once && repeated && room - panels >= 2 * once + 2 * repeated ? 2 : 1;
  const int64_t left = room - panels - second * once;
  const int most = repeated ? static_cast<int>(std::min<int64_t>(left / repeated, most_stages)) : 1;
  int64_t offset = 0;
  for (AsyncRing& ring : rings) {
    ring.stages = is_repeated(ring, function) ? most : second;
    ring.offset = offset;
    offset += ring.stages * ring.stage_bytes;
  }
  for (SharedOperand& operand : operands) {
    operand.offset = offset;
    offset += shared_buffers * operand.layout.stage_bytes();
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
    ring.empty = offset + 8 * ring.stages;
    offset += 16 * ring.stages;
  }
  shared_bytes = offset;
}

Layout AsyncPlan::accumulator(const Shape& shape) const {
  const bool by_columns = divides_columns(shape);
  const auto columns = static_cast<int>(by_columns ? shape[1] / groups : shape[1]);
  return Layout(shape, {{Level::reg, 1, 2, 1, 1},
                        {Level::reg, 2, 2, 0, 8},
                        {Level::reg, 4, columns / 8, 1, 8},
                        {Level::reg, columns / 2, row_blocks, 0, block_rows},
                        {Level::lane, 1, 4, 1, 2},
                        {Level::lane, 4, 8, 0, 1},
                        {Level::warp, 1, 4, 0, 16},
                        {Level::group, 1, groups, by_columns ? 1 : 0,
                         by_columns ? columns : int64_t{block_rows} * row_blocks}});
}

}  // namespace tile::cuda
