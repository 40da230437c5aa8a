// Moves products of bytes, and what they need, within a block.
#include "cuda/async/byte_products.h"

#include <algorithm>
#include <unordered_set>

#include "cuda/layout.h"
#include "cuda/staging.h"

namespace tile::cuda {
namespace {

constexpr int64_t other_registers = 40;  // of a thread, for addresses and scales

class Starter {
 public:
  explicit Starter(const AsyncPlan& plan) : plan_(plan) {}

  // Moves small loads, and the scalars that only they need, from in front of a block's first product to
  // behind it: the product runs while their addresses are computed. Loads of a column, which take a register
  // or two, come from further behind too: those for the next iteration have all of this one to arrive.
  void start_first_product(Ops& all) const {
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
        if (uses_results(**user, op)) (moved.count(user->get()) ? has_moved : stays) = true;
      const bool loads = op.is("load") && !plan_.use_of(op).second,
                 is_index = op.traits().pure() && !op.results.empty() && !is_tile(op.results[0]);
      if (!stays && (loads || (is_index && has_moved))) moved.insert(&op);
    }
    std::stable_partition(all.begin(), product + 1, [&](const auto& op) { return !moved.count(op.get()); });
    raise_loads(all, static_cast<size_t>(product - all.begin()) + 1);
  }
  // Starts a product in front of the op that awaits the one before, where a thread's registers hold the sums
  // of both: tensor cores work while that op runs.
  void start_before_sums(const Block& block, Ops& all) const {
    const auto is_early = [](const auto& op) { return op->is("mma") && info(op->type(0).dtype).bytes == 1; };
    int64_t left = product_registers();
    for (const Value* carried : block.arguments)
      if (is_tile(carried)) left -= registers_of(carried->type);
    std::vector<const Op*> started;  // whose results no op has used yet
    for (size_t i = 0; i < all.size(); ++i) {
      const auto awaits = [&](const Op* product) { return uses_results(*all[i], *product); };
      if (std::any_of(started.begin(), started.end(), awaits)) {
        const auto next = std::find_if(all.begin() + static_cast<ptrdiff_t>(i) + 1, all.end(), is_early);
        std::vector<const Op*> needed;
        if (next != all.end() && registers_of((*next)->type(2)) <= left && gather(**next, all, i, needed)) {
          started.push_back(next->get());
          (*next)->attributes.set("early", int64_t{1});
          left -= registers_of((*next)->type(2));
          std::stable_partition(all.begin() + static_cast<ptrdiff_t>(i), next + 1, [&](const auto& each) {
            return std::find(needed.begin(), needed.end(), each.get()) != needed.end();
          });
          i += needed.size();
        }
        std::erase_if(started, [&](const Op* product) {
          if (!awaits(product)) return false;
          left += registers_of(product->type(2));
          return true;
        });
      }
      if (!is_early(all[i])) continue;
      started.push_back(all[i].get());
      left -= registers_of(all[i]->type(2));
    }
  }

 private:
  // Returns the number of registers of a thread of the groups that may hold sums.
  int64_t product_registers() const {
    return (plan_.moves_registers() ? plan_.group_registers() : 255) - other_registers;
  }
  int64_t registers_of(const Type& type) const {
    const int64_t threads = int64_t{plan_.groups} * AsyncPlan::group_threads;
    return (element_count(type.shape) + threads - 1) / threads;
  }

  // Moves loads of a column to position `to`, up to the first op with effects.
  void raise_loads(Ops& all, size_t to) const {
    for (size_t i = to; i < all.size() && !all[i]->traits().acts() && all[i]->regions.empty(); ++i) {
      const Op& op = *all[i];
      std::vector<const Op*> needed;
      if (!op.is("load") || !is_tile(op.results[0]) || op.results[0]->type.shape.back() != 1 ||
          plan_.use_of(op).second || !gather(op, all, to, needed))
        continue;
      std::stable_partition(all.begin() + static_cast<ptrdiff_t>(to),
                            all.begin() + static_cast<ptrdiff_t>(i) + 1, [&](const auto& each) {
                              return std::find(needed.begin(), needed.end(), each.get()) != needed.end();
                            });
      to += needed.size();
    }
  }
  // Adds the op and the ops behind position `from` that it needs. Returns false if one of them is neither a
  // scalar nor a product's operand.
  bool gather(const Op& op, const Ops& all, size_t from, std::vector<const Op*>& needed) const {
    if (std::find(needed.begin(), needed.end(), &op) != needed.end()) return true;
    needed.push_back(&op);
    return std::all_of(all.begin() + static_cast<ptrdiff_t>(from), all.end(), [&](const auto& made) {
      const bool is_index = made->traits().pure() && !made->results.empty() && !is_tile(made->results[0]),
                 is_operand = plan_.use_of(*made).second || transposes(*made);
      return !uses_results(op, *made) || ((is_index || is_operand) && gather(*made, all, from, needed));
    });
  }

  const AsyncPlan& plan_;
};

}  // namespace

void start_byte_products(const Block& block, Ops& ops, const AsyncPlan& plan) {
  const Starter starter(plan);
  starter.start_first_product(ops);
  starter.start_before_sums(block, ops);
}

}  // namespace tile::cuda
