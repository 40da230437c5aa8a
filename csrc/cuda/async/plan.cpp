// Checks a kernel's products and their loads, and places the rings in shared memory.
#include "cuda/async/plan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "cuda/async/epilogue.h"
#include "cuda/async/held_operands.h"
#include "cuda/async/loop_tiles.h"
#include "cuda/staging.h"
#include "ir/walk.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

// Elements of a tile that threads load in a loop of products: a row, or so many a thread.
constexpr int64_t most_row = 256, most_a_thread = 2;
constexpr int64_t row_unit = 128;      // bytes to which the copy unit aligns rows in shared memory
constexpr int instruction_bytes = 32;  // of an operand's row that an instruction multiplies
constexpr int least_columns = 32;      // of a group, where groups divide columns

int64_t round_up(int64_t bytes) {
  constexpr int64_t unit = AsyncPlan::alignment;
  return (bytes + unit - 1) / unit * unit;
}

// The operands that wgmma multiplies, and the dtype of their sums.
struct WgmmaOperands {
  DTypeSet each;  // both operands are of the set, and of one dtype unless they may be mixed
  bool mixed;
  DType sums;
};
constexpr WgmmaOperands wgmma_operands[] = {
    {DTypeSet(DType::f16), false, DType::f32},
    {DTypeSet(DType::bf16), false, DType::f32},
    {DTypeSet(DType::tf32), false, DType::f32},
    {DTypeSet(DType::f8e4m3, DType::f8e5m2), true, DType::f32},
    {DTypeSet(DType::i8, DType::u8), true, DType::i32},
};
bool multiplies_on_wgmma(const Op& mma) {
  const DType x = mma.type(0).dtype, y = mma.type(1).dtype;
  return mma.type(0).rank() == 2 &&
         std::any_of(std::begin(wgmma_operands), std::end(wgmma_operands), [&](const WgmmaOperands& row) {
           return row.each.has(x) && row.each.has(y) && (row.mixed || x == y) &&
                  mma.type(2).dtype == row.sums;
         });
}
bool is_within(const Block& block, const Block& outer) {
  const Block* at = &block;
  while (at != &outer && at->parent) at = at->parent->parent;
  return at == &outer;
}
int element_bytes(const Op& mma) { return info(mma.type(0).dtype).bytes; }

// Returns true if the block loads rows of several elements that no product reads.
bool loads_rows(const Block& block, const Users& users) {
  return std::any_of(block.ops.begin(), block.ops.end(), [&](const auto& op) {
    return op->is("load") && is_tile(op->results[0]) && op->results[0]->type.shape.back() > 1 &&
           !only_multiplied(op->results[0], users, multiplies_on_wgmma);
  });
}

}  // namespace

void RingUse::add(const Op& load) {
  loads.push_back(&load);
  for (const auto& op : block->ops)
    if (std::find(loads.begin(), loads.end(), op.get()) != loads.end()) last = op.get();
}
void AsyncRing::add(RingTile tile) {
  tile.offset = stage_bytes;
  stage_bytes += kind == Kind::rows ? tile.layout.stage_bytes() : round_up(tile.layout.stage_bytes());
  tiles.push_back(std::move(tile));
}
int64_t AsyncRing::copied_bytes() const {
  if (kind == Kind::epilogue) return tiles[0].layout.stage_bytes();
  int64_t bytes = 0;
  for (const RingTile& tile : tiles) bytes += tile.layout.stage_bytes();
  return bytes;
}
bool AsyncRing::shared() const {
  return std::any_of(tiles.begin(), tiles.end(), [](const RingTile& tile) { return tile.shared; });
}

std::pair<int, const RingUse*> AsyncPlan::use_of(const Op& load) const {
  for (size_t r = 0; r < rings.size(); ++r)
    for (const RingUse& use : rings[r].uses)
      if (std::find(use.loads.begin(), use.loads.end(), &load) != use.loads.end())
        return {static_cast<int>(r), &use};
  return {-1, nullptr};
}

bool AsyncPlan::decline(const Op& op, const std::string& reason) {
  why_not = op.location.known() ? str(op.location, ": ", reason) : reason;
  return false;
}

AsyncPlan::AsyncPlan(const Function& function, const KernelArrays& arrays, const Target& target,
                     bool persistent, bool draws, bool may_hold)
    : persistent(persistent), draws(draws) {
  std::vector<const Op*> products;
  walk(function.body(), [&](const Op& op) {
    if (op.is("mma")) products.push_back(&op);
  });
  if (products.empty()) {
    why_not = "the kernel has no product";
    return;
  }
  const auto all = [&](auto test) {
    return std::all_of(products.begin(), products.end(), [&](const Op* mma) { return test(*mma); });
  };
  if (!choose_groups(products) || !all([&](const Op& mma) { return fits(mma); })) return;
  if (!all([&](const Op& mma) { return add_continued(function, arrays, mma); })) {
    why_not.clear();
    rings.clear();
    awaits = true;
    choose_columns(products);
    if (!all([&](const Op& mma) { return fits(mma); })) return;
    std::vector<Together> together;
    if (!all([&](const Op& mma) { return add_awaited(function, arrays, mma, together); })) return;
    add_rings(std::move(together), AsyncRing::Kind::operands);
    add_rows(function, arrays);
    add_tiles(function, arrays);
    if (may_hold) held = held_operands(function, *this);
  }
  for (const Op* mma : products) {
    int64_t elements = 0;
    for (const Op* other : products)
      if (other->parent == mma->parent) elements += element_count(other->type(2).shape);
    most_sums = std::max(most_sums, elements / (int64_t{groups} * group_threads));
  }
  add_epilogue(function, arrays);
  place(function, target);
  if (awaits && why_not.empty()) decline_awaited_loads(function, products);
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

// Lets two groups divide the columns of products of 64 rows whose sums one group's registers do not hold.
void AsyncPlan::choose_columns(const std::vector<const Op*>& products) {
  constexpr int64_t most_registers = 255;
  int64_t sums = 0;
  for (const Op* mma : products) {
    if (element_bytes(*mma) != 2) return;
    sums += mma->type(2).shape[1] / 2;
  }
  by_columns = groups == 1 && row_blocks == 1 && sums > most_registers;
  if (by_columns) groups = 2;
}

// Checks what all products must be.
bool AsyncPlan::fits(const Op& mma) {
  const Shape& shape = mma.type(2).shape;
  const int64_t m = shape[0], n = shape[1], k = mma.type(0).shape[1];
  const int64_t depth = instruction_bytes / element_bytes(mma);
  if (m % block_rows != 0 || n % 8 != 0 || n > most_columns || k % depth != 0)
    return decline(mma, str("the tile of ", m, "x", n, "x", k, " is no multiple of 64x8x", depth,
                            ", or has more than 256 columns"));
  // A group's columns begin at a panel of the right operand, or in its middle.
  if (m != int64_t{block_rows} * row_blocks * groups &&
      !(divides_columns(shape) && n % (groups * least_columns) == 0))
    return decline(mma, str("the product has ", m, "x", n, " sums; those of ", groups, " groups have ",
                            block_rows * row_blocks * groups, " rows, or ", block_rows * row_blocks,
                            " and a multiple of ", groups * least_columns, " columns"));
  const int64_t sums = int64_t{row_blocks} * group_columns(shape) / 2;
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
  if (!initial || initial->as_double() != 0) return false;
  const Users users = users_of(body);
  for (const auto& op : body.ops) {
    if (op->is("load") && !only_multiplied(op->results[0], users, multiplies_on_wgmma)) return false;
    const bool computes = !op->results.empty() && is_tile(op->results[0]) && !op->is("load") &&
                          !op->is("mma") && !op->is("permute") && !rounds_to_tf32(*op);
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

// Adds a product that ends in its block. Tiles that one product reads, and that are loaded in its block,
// share a ring; others do not, because products of a block may read them at different times. Tiles do not
// share a ring in a block that loads rows either: without a product's own wait, ptxas would load the row that
// the next product needs too early, into registers that are not free.
bool AsyncPlan::add_awaited(const Function& function, const KernelArrays& arrays, const Op& mma,
                            std::vector<Together>& all) {
  // Without wgmma, 8-bit operands are converted to 16 bits, which takes longer than one group's waiting.
  if (groups == 1 && element_bytes(mma) != 1)
    return decline(mma, str("the loop computes more than products, and nothing runs while the one group of ",
                            mma.type(2).shape[0], " rows awaits them"));
  const Users users = users_of(function.body());
  std::optional<size_t> own;  // the tiles of this block that the product reads
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
    const auto with_load = std::find_if(all.begin(), all.end(), [&](const Together& tiles) {
      return std::any_of(tiles.begin(), tiles.end(),
                         [&](const RingTile& each) { return each.access == load; });
    });
    auto at = static_cast<size_t>(with_load - all.begin());
    if (with_load == all.end()) all.push_back({std::move(tile)});
    if (load->parent != mma.parent || loads_rows(*mma.parent, users)) continue;
    if (own && *own != at) {
      const size_t first = std::min(*own, at), last = std::max(*own, at);
      std::move(all[last].begin(), all[last].end(), std::back_inserter(all[first]));
      all.erase(all.begin() + static_cast<ptrdiff_t>(last));
      at = first;
    }
    own = at;
  }
  return true;
}

// Adds the rows that the loops of products load: the producer copies them ahead too. Threads would wait for
// what they load themselves in each iteration.
void AsyncPlan::add_rows(const Function& function, const KernelArrays& arrays) {
  const auto multiplies = [](const Block& block) {
    return std::any_of(block.ops.begin(), block.ops.end(), [](const auto& op) { return op->is("mma"); });
  };
  std::vector<Together> rows;
  walk(function.body(), [&](const Op& op) {
    const Block& block = *op.parent;
    const Op* loop = block.parent;
    if (!op.is("load") || !loop || (persistent && !loop->parent->parent) || !multiplies(block)) return;
    const Type& type = op.results[0]->type;
    const ArrayFacts facts = arrays.facts(op.operands[0]);
    const int bytes = info(type.dtype).bytes;
    if (type.rank() != 1 || bytes != 4 || type.shape[0] > most_row || type.shape[0] * bytes % row_unit != 0)
      return;
    RingTile tile;
    std::vector<const Op*> address;
    if (op.number("pad") != 0 || !facts.constant || !has_map(arrays, op.operands[0]) ||
        !tile.follow(function, op) || tile.dimensions() > CopiedTile::most_dimensions ||
        !address_ops(op, block, address, &arrays))
      return;
    tile.layout = {.rows = 1,
                   .width = type.shape[0],
                   .element_bytes = bytes,
                   .panel = type.shape[0],
                   .pitch = type.shape[0] * bytes};
    rows.emplace_back();
    rows.back().push_back(std::move(tile));
  });
  add_rings(std::move(rows), AsyncRing::Kind::rows);
}

bool AsyncPlan::in_sums_layout(const Shape& shape) const {
  if (shape[1] % 8 != 0 || shape[1] > most_columns) return false;
  if (divides_columns(shape)) return shape[1] % (groups * least_columns) == 0;
  return shape[0] == int64_t{block_rows} * row_blocks * groups;
}
// Adds the tiles that the loops of products load beside operands.
void AsyncPlan::add_tiles(const Function& function, const KernelArrays& arrays) {
  std::vector<Together> tiles;
  for (CopiedTile& tile :
       loop_tiles(function, arrays, [&](const Shape& shape) { return in_sums_layout(shape); })) {
    const Op* loop = tile.access->parent->parent;
    const bool is_operand = use_of(*tile.access).second;
    if (is_operand || !loop || (persistent && !loop->parent->parent)) continue;
    tiles.emplace_back();
    tiles.back().push_back({std::move(tile)});
  }
  add_rings(std::move(tiles), AsyncRing::Kind::tiles);
}

// Adds the rings of products that end in their block. Blocks that load the same tiles, such as the parts of a
// loop, use the same ring.
void AsyncPlan::add_rings(std::vector<Together> all, AsyncRing::Kind kind) {
  for (Together& tiles : all) {
    const Block* block = tiles[0].access->parent;
    const auto is_free = [&](const AsyncRing& ring) {
      const auto same = [](const RingTile& known, const RingTile& tile) {
        return known.access->operands[0] == tile.access->operands[0] &&
               known.access->results[0]->type == tile.access->results[0]->type &&
               known.access->integers("steps") == tile.access->integers("steps");
      };
      return ring.kind == kind &&
             std::equal(ring.tiles.begin(), ring.tiles.end(), tiles.begin(), tiles.end(), same) &&
             std::none_of(ring.uses.begin(), ring.uses.end(),
                          [&](const RingUse& use) { return use.block == block; });
    };
    RingUse use{.block = block};
    for (const RingTile& tile : tiles) use.add(*tile.access);
    auto ring = std::find_if(rings.begin(), rings.end(), is_free);
    if (ring == rings.end()) {
      ring = rings.insert(rings.end(), {.kind = kind});
      for (RingTile& tile : tiles) ring->add(std::move(tile));
    }
    ring->uses.push_back(std::move(use));
  }
}

// Declines a kernel whose products wait for loads of tiles without a ring, which do not run ahead, unless
// these are few, or another loop of as many products has none: one that is not the usual case may wait.
void AsyncPlan::decline_awaited_loads(const Function& function, const std::vector<const Op*>& products) {
  const Users users = users_of(function.body());
  const int64_t most = std::max(most_row, int64_t{groups} * group_threads * most_a_thread);
  const auto awaited_load = [&](const Block& body) -> const Op* {
    for (const auto& op : body.ops)
      if (op->is("load") && is_tile(op->results[0]) && element_count(op->results[0]->type.shape) > most &&
          !only_multiplied(op->results[0], users, multiplies_on_wgmma) && !use_of(*op).second)
        return op.get();
    return nullptr;
  };
  int64_t usual = 0, waiting = 0;  // the most products of a loop
  const Op* awaited = nullptr;
  for (const Op* mma : products) {
    const Op* loop = mma->parent->parent;
    if (!loop || (persistent && !loop->parent->parent)) continue;
    const int64_t count = std::count_if(products.begin(), products.end(),
                                        [&](const Op* other) { return other->parent == mma->parent; });
    const Op* load = awaited_load(*mma->parent);
    int64_t& largest = load ? waiting : usual;
    largest = std::max(largest, count);
    if (load && !awaited) awaited = load;
  }
  if (awaited && usual < waiting) decline(*awaited, "the loop of a product loads a tile that is no operand");
}

// Adds a left operand that is computed. A group has its rows in registers; it reads what other groups have
// computed from shared memory.
bool AsyncPlan::add_computed(const Op& mma, const MmaOperand& read) {
  const Type& type = read.value->type;
  // The registers of sums and of left operands have elements in one order only if these have 16 bits.
  if (element_bytes(mma) != 2)
    return decline(mma, str("the left operand is computed as ", mma.type(0), ", which is not of 16 bits"));
  if (!read.transposed && !divides_columns(type.shape)) return true;
  const int bytes = info(type.dtype).bytes;
  const bool by_rows = type.shape[0] == int64_t{block_rows} * row_blocks * groups;
  // A group that divides columns writes 16 of them at a time.
  const bool whole = by_columns ? type.shape[0] == block_rows && type.shape[1] % (groups * 16) == 0
                                : by_rows && read.transposed;
  if (!whole || type.shape[1] * bytes % 128 != 0)
    return decline(mma, str("the left operand is computed as ", type,
                            read.transposed ? " and then transposed" : ", so that no group has all of it"));
  for (SharedOperand& known : operands)
    if (mma_operand(known.products.back()->operands[0]).value == read.value) {
      known.products.push_back(&mma);
      return true;
    }
  const SharedLayout layout = in_panels(type.shape[0], type.shape[1], bytes, 128);
  // Blocks that follow each other take the same buffers in turn, as iterations do.
  const auto may_share = [&](const SharedOperand& known) {
    return known.layout == layout &&
           std::none_of(known.products.begin(), known.products.end(), [&](const Op* other) {
             return is_within(*other->parent, *mma.parent) || is_within(*mma.parent, *other->parent);
           });
  };
  auto operand = std::find_if(operands.begin(), operands.end(), may_share);
  if (operand == operands.end()) operand = operands.insert(operands.end(), {.layout = layout});
  operand->products.push_back(&mma);
  return true;
}

// Returns true if a product whose groups divide the columns of the loaded tile would read a panel of 128
// bytes from its middle on, and the next one. `unit` is the axis along which elements are adjacent.
bool AsyncPlan::divides_panels(const Function& function, const Op& load, size_t unit) const {
  constexpr int64_t panel = 64;
  bool found = false;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma") || !divides_columns(op.type(2).shape)) return;
    const MmaOperand read = mma_operand(op.operands[1]);
    const int64_t columns = op.type(2).shape[1] / groups, rest = columns % panel;
    const bool along_columns = unit == (read.transposed ? 0 : 1);
    if (read.value == load.results[0] && along_columns && rest && rest + columns > panel) found = true;
  });
  return found;
}

// Describes the tile of an operand that is loaded.
bool AsyncPlan::describe(const Function& function, const KernelArrays& arrays, const Op& mma, size_t operand,
                         RingTile& tile) {
  const MmaOperand read = mma_operand(mma.operands[operand]);
  const Op* load = read.value->definition;
  const char* which = operand ? "right" : "left";
  if (load->number("pad") != 0) return decline(*load, "the tile is padded with another number than 0");
  const ArrayFacts facts = arrays.facts(load->operands[0]);
  if (!tile.follow(function, *load)) return decline(*load, str("the ", which, " operand is ", tile.why_not));
  if (tile.dimensions() > CopiedTile::most_dimensions)
    return decline(
        *load,
        str("the array has ", tile.axes.size(), tile.sliced < 0 ? " axes" : " axes, of which one is sliced",
            "; the copy unit takes ",
            CopiedTile::most_dimensions - (tile.sliced < 0 ? 0 : size_t{TensorMapSpec::slice_dimensions})));
  if (!facts.constant) return decline(*load, "the kernel writes the array");
  if (!has_map(arrays, load->operands[0]))
    return decline(*load, str("the ", which,
                              " operand's array is not contiguous along an axis, not aligned to "
                              "16 bytes, too large, empty, or has strides of 0 or less"));
  const Type& type = load->results[0]->type;
  const int bytes = info(type.dtype).bytes;
  const auto unit = static_cast<size_t>(facts.unit);
  const int64_t rows = type.shape[1 - unit], width = type.shape[unit];
  const int swizzle = divides_panels(function, *load, unit)
                          ? std::min(swizzle_of(width * bytes), least_columns * bytes)
                          : swizzle_of(width * bytes);
  if (rows > 256 || rows % 8 != 0 || !swizzle)
    return decline(*load, str("a tile of ", type, " does not fit the copy unit's boxes"));
  tile.layout = in_panels(rows, width, bytes, swizzle, unit == 1 ? Major::columns : Major::rows);
  tile.rounds = mma.type(operand).dtype == DType::tf32;
  // Along the axis of rows or columns, wgmma reads panels of 64 elements for each block of 64 rows.
  const bool k_major = (unit == 1) == (operand == 0) ? !read.transposed : read.transposed;
  if (!k_major && bytes != 2)
    return decline(*load,
                   str("the ", which, " operand of ", tile.dtype_of(type), " is not contiguous along k"));
  if (!k_major && operand == 0 && swizzle != 128)
    return decline(*load, "the left operand's rows are no multiple of 64");
  return true;
}

// Finds the tiles of epilogues that go through shared memory.
void AsyncPlan::add_epilogue(const Function& function, const KernelArrays& arrays) {
  const EpilogueShape shape{int64_t{block_rows} * row_blocks * groups, most_columns, persistent};
  stores = panel_stores(function, arrays, shape);
  // Where products are awaited in their block, the groups read several rings already, in an order of their
  // own.
  if (awaits) return;
  AsyncRing ring{.kind = AsyncRing::Kind::epilogue};
  for (CopiedTile& load : epilogue_loads(function, arrays, shape, stores)) {
    ring.uses.push_back({.block = load.access->parent, .first_tile = ring.tiles.size()});
    ring.uses.back().add(*load.access);
    ring.stage_bytes = round_up(load.layout.stage_bytes());
    ring.tiles.push_back({std::move(load)});
  }
  if (!ring.uses.empty()) rings.push_back(std::move(ring));
}

Layout AsyncPlan::in_fragments(const Shape& shape, std::optional<int> divided) const {
  const bool by_columns = divided == 1;
  const auto columns = static_cast<int>(by_columns ? shape[1] / groups : shape[1]);
  std::vector<Mode> modes{
      {Level::reg, 1, 2, 1, 1},           {Level::reg, 2, 2, 0, 8},
      {Level::reg, 4, columns / 8, 1, 8}, {Level::reg, columns / 2, row_blocks, 0, block_rows},
      {Level::lane, 1, 4, 1, 2},          {Level::lane, 4, 8, 0, 1},
      {Level::warp, 1, 4, 0, 16}};
  if (divided)
    modes.push_back(
        {Level::group, 1, groups, *divided, by_columns ? columns : int64_t{block_rows} * row_blocks});
  return Layout(shape, std::move(modes));
}
Layout AsyncPlan::accumulator(const Shape& shape) const {
  return in_fragments(shape, divides_columns(shape) ? 1 : 0);
}
Layout AsyncPlan::left_operand(const Shape& shape) const {
  return in_fragments(shape, divides_columns(shape) ? std::nullopt : std::optional(0));
}

}  // namespace tile::cuda
