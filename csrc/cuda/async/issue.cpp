// Walks each block with a queue of the products in flight.
#include "cuda/async/issue.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <unordered_map>

#include "cuda/async/ops.h"
#include "cuda/staging.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

class Issuer {
 public:
  Issuer(Function& function, const KernelArrays& arrays, const AsyncPlan& plan)
      : function_(function), arrays_(arrays), plan_(plan) {}

  void block(Block& block) {
    std::vector<std::unique_ptr<Op>> all = std::exchange(block.ops, {});
    start_first_product(all);
    if (plan_.by_columns) start_products_early(all);
    std::deque<Product> outer_flight = std::exchange(flight_, {});
    std::vector<Use> outer_uses = std::exchange(uses_, {});
    std::unordered_map<int64_t, Value*> outer_written = std::exchange(written_, {});
    Builder build(function_, block);
    for (size_t i = 0; i < all.size(); ++i) {
      const Op& op = *all[i];
      if (const int ring = ring_of(op); ring >= 0) {
        uses_.push_back({ring, &op, last_reader(op, all, i)});
        continue;
      }
      if (transposes(op) && is_operand(op, all)) continue;
      build.location = op.location;
      wait_for_stages(op, build);
      await_operands(op, build);
      const bool ends = i + 1 == all.size();
      if (ends) await(flight_.size(), build);
      this->op(std::move(all[i]), build);
    }
    flight_ = std::move(outer_flight);
    uses_ = std::move(outer_uses);
    written_ = std::move(outer_written);
  }

 private:
  // The tile that a load of this block takes from its ring, until the stage is freed.
  struct Use {
    int ring;
    const Op* load;
    const Op* last_reader;  // the last op of the block that reads the tile
    bool waited = false;
  };
  struct Product {
    const Op* mma;
    Value* issued;
  };

  static bool uses(const Op& op, const Op& made) {
    return std::any_of(made.results.begin(), made.results.end(), [&](const Value* result) {
      return std::count(op.operands.begin(), op.operands.end(), result) != 0;
    });
  }
  // Moves small loads, and the scalars that only they need, from in front of a block's first product to
  // behind it: the product runs while their addresses are computed. Only for operands of 8 bits, whose
  // products take half the time: attention's gradient, of 16 bits, would spill more registers.
  void start_first_product(std::vector<std::unique_ptr<Op>>& all) const {
    const auto product = std::find_if(all.begin(), all.end(), [](const auto& op) { return op->is("mma"); });
    if (product == all.end() || info((*product)->type(0).dtype).bytes != 1) return;
    const bool ordered = std::any_of(
        all.begin(), product, [](const auto& op) { return op->traits().acts() || !op->regions.empty(); });
    if (ordered) return;
    std::unordered_set<const Op*> moved;
    for (auto i = product - all.begin(); i-- > 0;) {
      const Op& op = *all[static_cast<size_t>(i)];
      bool has_moved = false, stays = false;
      for (auto user = all.begin() + i + 1; user <= product; ++user)
        if (uses(**user, op)) (moved.count(user->get()) ? has_moved : stays) = true;
      const bool loads = op.is("load") && ring_of(op) < 0,
                 is_index = op.traits().pure() && !op.results.empty() && !is_tile(op.results[0]);
      if (!stays && (loads || (is_index && has_moved))) moved.insert(&op);
    }
    std::stable_partition(all.begin(), product + 1, [&](const auto& op) { return !moved.count(op.get()); });
  }

  // Moves each product to where its operands are known, and what needs none of the next product's results
  // behind that product: groups that divide columns wait for each other, so that no other group multiplies
  // while one computes. Ops with effects keep their order, and the last op ends the block.
  void start_products_early(std::vector<std::unique_ptr<Op>>& all) const {
    std::unordered_map<const Op*, size_t> index;
    for (size_t i = 0; i < all.size(); ++i) index[all[i].get()] = i;
    // What an op follows: the ops whose results it or an op inside of it uses, and the effect before it.
    std::vector<std::vector<size_t>> follows(all.size());
    std::vector<size_t> effects;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const Op& op = *all[i];
      const auto visit = [&](const Op& each) {
        for (const Value* operand : each.operands)
          if (const auto found = index.find(operand->definition); operand->definition && found != index.end())
            follows[i].push_back(found->second);
      };
      visit(op);
      for (const auto& region : op.regions) walk(*region, visit);
      if (op.is("mma") || moves_freely(op)) continue;
      if (!effects.empty()) follows[i].push_back(effects.back());
      effects.push_back(i);
    }
    const std::vector<size_t> products = by_first_use(all, follows);
    std::vector<char> begun(all.size()), done(all.size());
    std::vector<size_t> order;
    // A product may start if nothing has to be computed for it; a load or an effect may if it needs none of
    // the products to come.
    const auto may_start = [&](size_t i, const auto& self) -> bool {
      return std::all_of(follows[i].begin(), follows[i].end(), [&](size_t before) {
        return done[before] ||
               (moves_freely(*all[before]) && !is_computed(*all[before]) && self(before, self));
      });
    };
    const auto may_happen = [&](size_t i, const auto& self) -> bool {
      return std::all_of(follows[i].begin(), follows[i].end(), [&](size_t before) {
        return done[before] || (moves_freely(*all[before]) && self(before, self));
      });
    };
    const auto emit = [&](size_t i, const auto& self) -> void {
      if (std::exchange(begun[i], 1)) return;
      std::vector<size_t> first = follows[i];
      std::sort(first.begin(), first.end());
      for (const size_t before : first) self(before, self);
      order.push_back(i);
      done[i] = 1;
      if (is_computed(*all[i]))
        for (const size_t k : products)
          if (!begun[k] && may_start(k, may_start)) self(k, self);
    };
    // Emits what is computed for the op. The products that only waited for it follow in their order.
    const auto emit_computed = [&](size_t i, const auto& self) -> void {
      for (const size_t before : follows[i])
        if (!begun[before] && (!moves_freely(*all[before]) || is_computed(*all[before])))
          emit(before, emit);
        else if (!begun[before])
          self(before, self);
    };
    for (size_t next = 0; next < products.size();) {
      for (const size_t i : products)
        if (!begun[i] && may_start(i, may_start)) emit(i, emit);
      for (size_t i = 0; i < all.size(); ++i)
        if (!begun[i] && all[i]->is("load") && ring_of(*all[i]) < 0 && may_happen(i, may_happen))
          emit(i, emit);
      for (const size_t i : effects)
        if (!begun[i] && may_happen(i, may_happen)) emit(i, emit);
      while (next < products.size() && begun[products[next]]) ++next;
      if (next == products.size()) break;
      emit_computed(products[next], emit_computed);
      if (!begun[products[next]] && !may_start(products[next], may_start)) emit(products[next], emit);
    }
    for (size_t i = 0; i < all.size(); ++i) emit(i, emit);
    std::vector<std::unique_ptr<Op>> ordered;
    for (const size_t i : order) ordered.push_back(std::move(all[i]));
    all = std::move(ordered);
  }
  // Returns the products. The results of those in front are needed first: by another product or an effect
  // that itself needs fewer products.
  std::vector<size_t> by_first_use(const std::vector<std::unique_ptr<Op>>& all,
                                   const std::vector<std::vector<size_t>>& follows) const {
    std::vector<std::set<size_t>> needs(all.size());  // the products that an op needs
    std::vector<size_t> products, first_use(all.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      for (const size_t before : follows[i]) {
        needs[i].insert(needs[before].begin(), needs[before].end());
        if (all[before]->is("mma")) needs[i].insert(before);
      }
      if (all[i]->is("mma"))
        products.push_back(i);
      else if (moves_freely(*all[i]))
        continue;
      for (const size_t before : needs[i]) first_use[before] = std::min(first_use[before], needs[i].size());
    }
    std::stable_sort(products.begin(), products.end(),
                     [&](size_t a, size_t b) { return first_use[a] < first_use[b]; });
    return products;
  }
  // Returns true if the op may move across others: it is pure and no product, or loads what no op writes.
  bool moves_freely(const Op& op) const {
    if (!op.regions.empty() || op.is("mma")) return false;
    return op.traits().pure() || (op.is("load") && arrays_.facts(op.operands[0]).constant);
  }
  bool is_computed(const Op& op) const {
    return !op.results.empty() && !op.is("mma") && is_tile(op.results[0]) && ring_of(op) < 0 &&
           !transposes(op) && !op.is("broadcast");
  }

  int ring_of(const Op& op) const {
    for (size_t r = 0; r < plan_.rings.size(); ++r)
      for (const RingUse& use : plan_.rings[r].uses)
        if (use.loads[0] == &op) return static_cast<int>(r);
    return -1;
  }
  // Returns true if products read a tile through this op, which is then left to them.
  bool is_operand(const Op& op, const std::vector<std::unique_ptr<Op>>& all) const {
    const Op* made = mma_operand(op.results[0]).value->definition;
    if (made && loads_.count(made)) return true;
    return std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other && other->is("mma") && other->operands[0] == op.results[0] && shared_number(*other) >= 0;
    });
  }
  static bool reads(const Op& op, const Op& load) {
    bool found = false;
    const auto visit = [&](const Op& each) {
      for (size_t i = 0; each.is("mma") && i < 2; ++i)
        found = found || mma_operand(each.operands[i]).value == load.results[0];
    };
    visit(op);
    for (const auto& region : op.regions) walk(*region, visit);
    return found;
  }
  const Op* last_reader(const Op& load, const std::vector<std::unique_ptr<Op>>& all, size_t from) {
    loads_.insert(&load);
    const Op* last = nullptr;
    for (size_t i = from + 1; i < all.size(); ++i)
      if (reads(*all[i], load)) last = all[i].get();
    return last;
  }

  void wait_for_stages(const Op& op, Builder& build) {
    for (Use& use : uses_) {
      if (use.waited || !reads(op, *use.load)) continue;
      const Type& type = use.load->results[0]->type;
      const Location at = std::exchange(build.location, use.load->location);
      build.create(ring_wait, {}, ring_attribute(use.ring));
      tiles_[use.load->results[0]] = build.emit(
          ring_tile, {},
          {{"dtype", type.dtype}, {"ring", int64_t{use.ring}}, {"shape", type.shape}, {"tile", int64_t{0}}});
      use.waited = true;
      build.location = at;
    }
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
      awaited_[product.mma->results[0]] = build.emit(mma_await, {product.issued}, {{"pending", pending}});
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

  void op(std::unique_ptr<Op> op, Builder& build) {
    if (op->is("mma")) {
      flight_.push_back({op.get(), issue(*op, build)});
      kept_.push_back(std::move(op));
      return;
    }
    for (Value*& operand : op->operands)
      if (const auto found = awaited_.find(operand); found != awaited_.end()) operand = found->second;
    for (const auto& region : op->regions) {
      replace_uses(*region, awaited_);
      block(*region);
    }
    Block& to = build.block();
    op->parent = &to;
    for (Value* result : op->results) result->owner = &to;
    to.ops.push_back(std::move(op));
    release(*to.ops.back(), build);
  }
  Value* issue(const Op& mma, Builder& build) {
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
    Value* sums = adds ? current(mma.operands[2])
                       : build.emit(undefined, {}, {{"dtype", type.dtype}, {"shape", type.shape}});
    return build.emit(mma_issue, {read[0], read[1], sums, build.constant(DType::boolean, adds ? 1 : 0)},
                      {{"left_transposed", transposed[0]}, {"right_transposed", transposed[1]}});
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
  const KernelArrays& arrays_;
  const AsyncPlan& plan_;
  std::deque<Product> flight_;
  std::vector<Use> uses_;                        // of this block
  std::unordered_set<const Op*> loads_;          // of rings
  std::unordered_map<int64_t, Value*> written_;  // operands in shared memory, of this block
  ValueMap tiles_, awaited_;
  std::vector<std::unique_ptr<Op>> kept_;  // products that results in flight refer to
};

}  // namespace

void issue_products(Function& function, const KernelArrays& arrays, const AsyncPlan& plan, Block& groups) {
  Issuer(function, arrays, plan).block(groups);
}

}  // namespace tile::cuda
