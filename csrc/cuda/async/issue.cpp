// Walks each block with a queue of the products in flight.
#include "cuda/async/issue.h"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "cuda/async/byte_products.h"
#include "cuda/async/ops.h"
#include "cuda/staging.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

class Issuer {
 public:
  Issuer(Function& function, const AsyncPlan& plan) : function_(function), plan_(plan) {}

  void block(Block& block) {
    std::vector<std::unique_ptr<Op>> all = std::exchange(block.ops, {});
    start_byte_products(block, all, plan_);
    std::deque<Product> outer_flight = std::exchange(flight_, {});
    std::vector<Use> outer_uses = std::exchange(uses_, {});
    std::vector<Read> outer_read = std::exchange(read_, {});
    const bool outer_loads =
        std::exchange(loads_small_tiles_, std::any_of(all.begin(), all.end(), [&](const auto& op) {
                        return op->is("load") && is_tile(op->results[0]) && !plan_.use_of(*op).second;
                      }));
    std::unordered_map<int64_t, Value*> outer_written = std::exchange(written_, {});
    Builder build(function_, block);
    for (size_t i = 0; i < all.size(); ++i) {
      const Op& op = *all[i];
      if (const auto [ring, use] = plan_.use_of(op); use) {
        if (plan_.rings[static_cast<size_t>(ring)].read_by_warps())
          read_.push_back({ring, std::move(all[i])});
        else if (use->loads[0] == &op)
          uses_.push_back({ring, use, last_reader(*use, all)});
        continue;
      }
      if ((transposes(op) || rounds_to_tf32(op)) && is_operand(op, all)) continue;
      build.location = op.location;
      const bool ends = i + 1 == all.size();
      read_stages(op, ends, build);
      wait_for_stages(op, build);
      await_operands(op, build);
      if (ends) await(flight_.size(), build);
      Value* spent = op.is("mma") ? spent_sums(op, all, i) : nullptr;
      this->op(std::move(all[i]), build, spent);
    }
    flight_ = std::move(outer_flight);
    uses_ = std::move(outer_uses);
    read_ = std::move(outer_read);
    loads_small_tiles_ = outer_loads;
    written_ = std::move(outer_written);
  }

 private:
  // The tiles that loads of this block take from a ring, until the stage is freed.
  struct Use {
    int ring;
    const RingUse* loads;
    const Op* last_reader;  // the last op of the block that reads one of the tiles
    bool waited = false;
  };
  // A row or a tile of a ring that the block has not read to registers yet.
  struct Read {
    int ring;
    std::unique_ptr<Op> load;
  };
  struct Product {
    const Op* mma;
    Value* issued;
  };

  // Returns true if products read a tile through this op, which is then left to them.
  bool is_operand(const Op& op, const std::vector<std::unique_ptr<Op>>& all) const {
    const Op* made = mma_operand(op.results[0]).value->definition;
    if (made && loads_.count(made)) return true;
    return std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other && other->is("mma") && other->operands[0] == op.results[0] && shared_number(*other) >= 0;
    });
  }
  static bool reads(const Op& op, const RingUse& use) {
    bool found = false;
    const auto visit = [&](const Op& each) {
      for (size_t i = 0; each.is("mma") && i < 2; ++i)
        found = found || std::count(use.loads.begin(), use.loads.end(),
                                    mma_operand(each.operands[i]).value->definition) != 0;
    };
    visit(op);
    for (const auto& region : op.regions) walk(*region, visit);
    return found;
  }
  const Op* last_reader(const RingUse& use, const std::vector<std::unique_ptr<Op>>& all) {
    loads_.insert(use.loads.begin(), use.loads.end());
    const Op* last = nullptr;
    for (const auto& op : all)
      if (op && reads(*op, use)) last = op.get();
    return last;
  }

  void wait_for_stages(const Op& op, Builder& build) {
    for (Use& use : uses_) {
      if (use.waited || !reads(op, *use.loads)) continue;
      const auto& loads = use.loads->loads;
      const Location at = std::exchange(build.location, loads[0]->location);
      build.create(ring_wait, {}, ring_attribute(use.ring));
      const AsyncRing& ring = plan_.rings[static_cast<size_t>(use.ring)];
      for (size_t t = 0; t < loads.size(); ++t) {
        const Type& type = loads[t]->results[0]->type;
        build.location = loads[t]->location;
        tiles_[loads[t]->results[0]] = build.emit(ring_tile, {},
                                                  {{"dtype", ring.tiles[t].dtype_of(type)},
                                                   {"ring", int64_t{use.ring}},
                                                   {"shape", type.shape},
                                                   {"tile", static_cast<int64_t>(t)}});
        hold(*loads[t], use.ring, static_cast<int64_t>(t), build);
      }
      use.waited = true;
      build.location = at;
    }
  }

  // Reads what registers hold of the tile for products of a loop.
  void hold(const Op& load, int64_t ring, int64_t tile, Builder& build) {
    const Type& type = load.results[0]->type;
    Value* read = nullptr;
    for (const Op* product : plan_.held) {
      if (mma_operand(product->operands[0]).value != load.results[0]) continue;
      if (!read)
        read = build.emit(ring_left, {},
                          {{"dtype", type.dtype},
                           {"ring", ring},
                           {"shape", Shape{type.shape[0], AsyncPlan::held_columns}},
                           {"tile", tile}});
      held_[product] = read;
    }
  }

  // Reads the rows and tiles that the op, or an op inside of it, uses first. The last op of a block takes
  // those that are left, because the producer fills a stage for each iteration.
  void read_stages(const Op& op, bool last, Builder& build) {
    std::erase_if(read_, [&](Read& read) {
      const Value* loaded = read.load->results[0];
      bool used = last;
      const auto visit = [&](const Op& each) {
        used = used || std::count(each.operands.begin(), each.operands.end(), loaded) != 0;
      };
      visit(op);
      for (const auto& region : op.regions) walk(*region, visit);
      if (!used) return false;
      const Location at = std::exchange(build.location, read.load->location);
      const bool is_row = plan_.rings[static_cast<size_t>(read.ring)].kind == AsyncRing::Kind::rows;
      awaited_[read.load->results[0]] =
          read_stage(build, is_row ? ring_row : ring_read, read.ring, loaded->type);
      build.location = at;
      kept_loads_.push_back(std::move(read.load));
      return true;
    });
  }

  // Awaits the products whose results the op or an op inside of it uses.
  void await_operands(const Op& op, Builder& build) {
    size_t count = 0;
    const auto visit = [&](const Op& each) {
      for (const Value* operand : each.operands)
        for (size_t i = 0; i < flight_.size(); ++i)
          if (flight_[i].mma->results[0] == operand) count = std::max(count, i + 1);
    };
    visit(op);
    for (const auto& region : op.regions) walk(*region, visit);
    await(count, build);
  }
  // Awaits the oldest products, and frees the stages that they read last.
  void await(size_t count, Builder& build) {
    const auto pending = static_cast<int64_t>(flight_.size() - count);
    for (size_t i = 0; i < count; ++i) {
      const Product product = flight_.front();
      flight_.pop_front();
      const Location at = std::exchange(build.location, product.mma->location);
      Value* awaited = build.emit(mma_await, {product.issued}, {{"pending", pending}});
      divide_loops(*product.mma, *awaited);
      awaited_[product.mma->results[0]] = awaited;
      release(*product.mma, build);
      build.location = at;
    }
  }
  void release(const Op& reader, Builder& build) {
    std::erase_if(uses_, [&](const Use& use) {
      if (use.last_reader != &reader) return false;
      build.create(ring_release, {}, ring_attribute(use.ring));
      build.create(ring_next, {}, ring_attribute(use.ring));
      return true;
    });
  }

  // Returns the sums of an earlier product of the block that no op reads any more, or null. In their
  // registers the product cannot start before those reads. ptxas would start it earlier, in other registers,
  // which a loop that loads small tiles does not have.
  Value* spent_sums(const Op& mma, const std::vector<std::unique_ptr<Op>>& all, size_t from) {
    if (info(mma.type(0).dtype).bytes != 1 || !(loads_small_tiles_ || mma.has("early"))) return nullptr;
    for (size_t i = 0; i < kept_.size(); ++i) {
      const Op& before = *kept_[i];
      const auto awaited = awaited_.find(before.results[0]);
      const bool read =
          std::any_of(all.begin() + static_cast<ptrdiff_t>(from), all.end(),
                      [&](const auto& op) { return op->regions.empty() ? uses_results(*op, before) : true; });
      if (awaited == awaited_.end() || before.parent != mma.parent || before.type(2) != mma.type(2) || read ||
          !spent_.insert(&before).second)
        continue;
      return awaited->second;
    }
    return nullptr;
  }

  void op(std::unique_ptr<Op> op, Builder& build, Value* spent) {
    if (op->is("mma")) {
      flight_.push_back({op.get(), issue(*op, build, spent)});
      kept_.push_back(std::move(op));
      return;
    }
    for (Value*& operand : op->operands)
      if (const auto found = awaited_.find(operand); found != awaited_.end()) operand = found->second;
    for (const auto& region : op->regions) {
      replace_uses(*region, awaited_);
      block(*region);
    }
    release(build.insert(std::move(op)), build);
  }
  // Keeps the emitter from moving elementwise ops across the start of an early product and the wait for it:
  // ops before the start read sums whose registers the product takes, and ops before the wait run beside it.
  void divide_loops(const Op& mma, const Value& made) const {
    if (mma.has("early")) made.definition->attributes.set("early", int64_t{1});
  }
  Value* issue(const Op& mma, Builder& build, Value* spent) {
    std::array<Value*, 2> read;
    std::array<int64_t, 2> transposed;
    for (size_t i = 0; i < 2; ++i) {
      const MmaOperand operand = mma_operand(mma.operands[i]);
      Value* value = const_cast<Value*>(operand.value);
      const auto tile = tiles_.find(value);
      read[i] = tile != tiles_.end() ? tile->second : current(value);
      transposed[i] = operand.transposed;
      if (const int64_t number = i ? -1 : shared_number(mma); number >= 0)
        read[i] = in_shared(number, read[i], build);
    }
    const auto initial = constant_of(mma.operands[2]);
    const bool adds = !initial || initial->as_double() != 0;
    const Type& type = mma.type(2);
    Value* sums = adds ? current(mma.operands[2]) : spent;
    if (!sums) sums = build.emit(undefined, {}, {{"dtype", type.dtype}, {"shape", type.shape}});
    Value* add = build.constant(DType::boolean, adds ? 1 : 0);
    std::vector<Value*> operands{read[0], read[1], sums, add};
    if (const auto held = held_.find(&mma); held != held_.end()) operands.push_back(held->second);
    Value* issued = build.emit(mma_issue, std::move(operands),
                               {{"left_transposed", transposed[0]}, {"right_transposed", transposed[1]}});
    divide_loops(mma, *issued);
    return issued;
  }
  // Returns the number of the product's left operand among those that groups write to shared memory, or -1.
  int64_t shared_number(const Op& mma) const {
    for (size_t i = 0; i < plan_.operands.size(); ++i) {
      const auto& products = plan_.operands[i].products;
      if (std::find(products.begin(), products.end(), &mma) != products.end()) return static_cast<int64_t>(i);
    }
    return -1;
  }
  // Returns the operand in shared memory, to which the first product of the block writes it.
  Value* in_shared(int64_t number, Value* value, Builder& build) {
    Value*& written = written_[number];
    if (!written) written = build.emit(put_shared, {value}, {{"operand", number}});
    return written;
  }
  Value* current(Value* value) const {
    const auto found = awaited_.find(value);
    return found == awaited_.end() ? value : found->second;
  }

  Function& function_;
  const AsyncPlan& plan_;
  std::deque<Product> flight_;
  std::vector<Use> uses_;  // of this block
  std::vector<Read> read_;
  std::unordered_set<const Op*> loads_;          // of rings
  std::unordered_map<int64_t, Value*> written_;  // operands in shared memory, of this block
  std::unordered_map<const Op*, Value*> held_;   // by product
  ValueMap tiles_, awaited_;
  bool loads_small_tiles_ = false;         // this block
  std::unordered_set<const Op*> spent_;    // products whose sums' registers others have taken
  std::vector<std::unique_ptr<Op>> kept_;  // products that results in flight refer to
  std::vector<std::unique_ptr<Op>> kept_loads_;
};

}  // namespace

void issue_products(Function& function, const AsyncPlan& plan, Block& groups) {
  Issuer(function, plan).block(groups);
}

}  // namespace tile::cuda
