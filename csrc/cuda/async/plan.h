// Decides whether a kernel's products run on warpgroup instructions (wgmma): one group of four warps copies
// tiles into rings of shared memory, and one to three groups multiply them. All products of a kernel do, or
// none.
#pragma once
#include <string>
#include <vector>

#include "cuda/array_facts.h"
#include "cuda/async/copied_tile.h"
#include "cuda/async/epilogue_tiles.h"
#include "cuda/layout.h"
#include "cuda/program.h"
#include "cuda/shared_layout.h"
#include "cuda/staging.h"
#include "ir/op.h"

namespace tile::cuda {

// A tile of a ring's stages: a load that only products read, or one of an epilogue.
struct RingTile : CopiedTile {
  int64_t offset = 0;   // in the stage
  bool shared = false;  // both CTAs of a pair read it: each copies half to both
  // Halves are of the panels, or else of each panel's rows: the swizzle begins again in the second half.
  bool halves_panels() const { return layout.panels() % 2 == 0; }
  bool has_halves() const {
    if (sliced >= 0) return false;
    return halves_panels() || (layout.rows % 2 == 0 && layout.panel_bytes() / 2 % swizzle_bytes == 0);
  }
  static constexpr int64_t swizzle_bytes = 1024;  // after which a swizzle of 128 bytes begins again
};
// A left operand of which each group computes its rows, or its columns, and of which products of every group
// read all: every group writes its part to one of two buffers in turn.
struct SharedOperand {
  std::vector<const Op*> products;  // those of one block read one value
  SharedLayout layout;
  int64_t offset = 0;  // of the first buffer
};
// The loads of a block of ops that fill a stage of a ring, one for each of its tiles.
struct RingUse {
  const Block* block = nullptr;
  std::vector<const Op*> loads;
  const Op* last = nullptr;  // of the loads, in the order of the block
  size_t first_tile = 0;     // the number of the first load's tile in the ring
  void add(const Op& load);
};

// Tiles that the producer copies to stages ahead of the groups, for products to read where nothing else is
// said. All tiles of a stage are announced, awaited and freed together.
struct AsyncRing {
  // Products read operands from the stages. Each warp reads those of the other kinds to registers. epilogue:
  // a stage for the tile of each use, filled by a second producer. rows, tiles: a stage is a row of numbers,
  // or a tile, beside products that are awaited.
  enum class Kind { operands, epilogue, rows, tiles };
  Kind kind = Kind::operands;
  bool read_by_warps() const { return kind != Kind::operands; }
  // The loop whose products go on from iteration to iteration, all onto the same sums. Without one, products
  // are awaited in their block.
  const Op* loop = nullptr;
  std::vector<RingTile> tiles;
  std::vector<RingUse> uses;
  int stages = 0;
  int64_t stage_bytes = 0, offset = 0;  // in shared memory
  int64_t full = 0, empty = 0;          // the first of each stage's barriers
  int64_t copied_bytes() const;         // in an iteration
  bool shared() const;                  // it has a tile that both CTAs of a pair read
  void add(RingTile tile);
};

struct AsyncPlan {
  // persistent: CTAs run several blocks of the grid. draws: they take them from a queue. may_hold: left
  // operands may stay in registers.
  AsyncPlan(const Function& function, const KernelArrays& arrays, const Target& target, bool persistent,
            bool draws = false, bool may_hold = true);

  std::string why_not;  // empty: the kernel runs on wgmma
  bool persistent;
  bool draws;           // the CTAs of a persistent kernel draw blocks from a queue
  bool awaits = false;  // products are awaited in their block
  int cluster = 1;      // 2: CTAs are pairs that share tiles
  std::vector<AsyncRing> rings;
  std::vector<PanelStore> stores;
  std::vector<SharedOperand> operands;
  std::vector<const Op*> held;  // products of whose left operand registers hold the first columns
  int groups = 0;               // that multiply
  int row_blocks = 0;           // blocks of 64 rows of a group
  int64_t most_sums = 0;        // registers of a thread that the sums of a block's products take
  bool by_columns = false;      // one group's registers would not hold the sums: two divide all columns
  int64_t panels_offset = 0;    // of the panels' buffers, in shared memory
  int64_t queue_offset = 0;     // of the queue's slots, in shared memory
  int64_t shared_bytes = 0;

  // A group has two buffers for panels: the copy unit reads one while the group writes the other.
  static constexpr int panel_buffers = 2, panel_bytes = 64 * 128;
  static constexpr int64_t alignment = RingTile::swizzle_bytes;  // of tiles
  static constexpr int64_t held_columns = 64;          // four steps along k, which are one statement
  static constexpr int shared_buffers = 2;             // of an operand that groups compute
  static constexpr int queue_bytes = 2 * (8 + 8 + 4);  // two barriers and a block's number, of two slots
  static constexpr int group_threads = 128, block_rows = 64, most_columns = 256;
  int threads() const { return (groups + 1) * group_threads; }
  // Returns the number of the ring whose stages the load fills, and the use that it is of; or -1 and null.
  std::pair<int, const RingUse*> use_of(const Op& load) const;
  // Registers of a thread: setmaxnreg moves them from the producer to the groups. With one group, each thread
  // has 255 from the start. Two producers, or one of a pair that fills several rings, take more: their code
  // is longer.
  bool moves_registers() const { return groups > 1; }
  bool has_two_producers() const { return !rings.empty() && rings.back().kind == AsyncRing::Kind::epilogue; }
  bool has_long_producers() const { return has_two_producers() || (cluster > 1 && rings.size() > 1); }
  int producer_registers() const { return groups == 2 ? (has_long_producers() ? 40 : 24) : 32; }
  int group_registers() const { return groups == 2 ? (has_long_producers() ? 232 : 240) : 160; }
  // Returns true if sums take more than three quarters of a thread's registers. As a persistent kernel, whose
  // loop over blocks takes some too, attention's gradient then spills.
  bool fills_registers() const { return 4 * most_sums > 3 * (moves_registers() ? group_registers() : 255); }
  // The layout of an accumulator: each group has adjacent rows, each warp 16 of a block of 64. Where the rows
  // are those of one group, each group has adjacent columns.
  Layout accumulator(const Shape& shape) const;
  // Returns true if the groups hold a tile of this shape as they hold sums.
  bool in_sums_layout(const Shape& shape) const;
  // The layout of a left operand in registers: groups that divide columns have all rows each.
  Layout left_operand(const Shape& shape) const;
  bool divides_columns(const Shape& shape) const {
    return groups > 1 && shape[0] == int64_t{block_rows} * row_blocks;
  }
  int64_t group_columns(const Shape& shape) const {
    return divides_columns(shape) ? shape[1] / groups : shape[1];
  }

 private:
  Layout in_fragments(const Shape& shape, std::optional<int> divided) const;
  bool choose_groups(const std::vector<const Op*>& products);
  void choose_columns(const std::vector<const Op*>& products);
  bool fits(const Op& mma);
  bool add_continued(const Function& function, const KernelArrays& arrays, const Op& mma);
  bool add_computed(const Op& mma, const MmaOperand& read);
  void decline_awaited_loads(const Function& function, const std::vector<const Op*>& products);
  // The tiles of a block that share a ring, in the order in which products read them.
  using Together = std::vector<RingTile>;
  bool add_awaited(const Function& function, const KernelArrays& arrays, const Op& mma,
                   std::vector<Together>& all);
  void add_rings(std::vector<Together> all, AsyncRing::Kind kind);
  void add_rows(const Function& function, const KernelArrays& arrays);
  void add_tiles(const Function& function, const KernelArrays& arrays);
  std::pair<int64_t, int64_t> stages_once_and_repeated(const Function& function) const;
  void drop_tiles(const Function& function, int64_t room);
  bool divides_panels(const Function& function, const Op& load, size_t unit) const;
  bool describe(const Function& function, const KernelArrays& arrays, const Op& mma, size_t operand,
                RingTile& tile);
  void add_epilogue(const Function& function, const KernelArrays& arrays);
  bool is_repeated(const AsyncRing& ring, const Function& function) const;
  int epilogue_stages(int64_t left, int64_t repeated) const;
  void place(const Function& function, const Target& target);
  bool decline(const Op& op, const std::string& reason);
};

}  // namespace tile::cuda
