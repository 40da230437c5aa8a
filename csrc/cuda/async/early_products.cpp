// Reorders the ops of each block.
#include "cuda/async/early_products.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "cuda/array_facts.h"
#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

class Early {
 public:
  Early(Block& block, const KernelArrays& arrays) : block_(block), arrays_(arrays) {}

  void run() {
    for (const auto& op : block_.ops)
      if (op->is("mma")) products_.push_back({op.get(), {}, {}});
    if (!computes_operand() && !awaits_several()) return;
    for (Product& product : products_) follow(*product.mma, product);
    order_.reserve(block_.ops.size());
    place_products();
    for (const auto& op : block_.ops) {
      if (is_placed(op.get()) || op->is("mma")) continue;
      place(op.get());
      place_products();
    }
    std::vector<std::unique_ptr<Op>> all = std::exchange(block_.ops, {});
    std::unordered_map<const Op*, std::unique_ptr<Op>*> held;
    for (auto& op : all) held[op.get()] = &op;
    for (const Op* op : order_) block_.ops.push_back(std::move(*held.at(op)));
  }

 private:
  struct Product {
    const Op* mma;
    std::vector<const Op*> computed;      // what it needs that threads compute
    std::unordered_set<const Op*> moved;  // what moves with it
  };

  bool computes_operand() const {
    return std::any_of(products_.begin(), products_.end(), [&](const Product& product) {
      const Op* left = mma_operand(product.mma->operands[0]).value->definition;
      return left && left->parent == &block_ && !left->is("load");
    });
  }
  // Returns true if the block computes with the sums of several products. Those of bytes begin early anyway.
  bool awaits_several() const {
    const Users users = users_of(block_);
    return std::count_if(products_.begin(), products_.end(), [&](const Product& product) {
             const auto found = users.find(product.mma->results[0]);
             return info(product.mma->type(0).dtype).bytes > 1 && found != users.end() &&
                    std::any_of(found->second.begin(), found->second.end(),
                                [&](const Op* user) { return user->traits().elementwise; });
           }) > 1;
  }
  // Returns true for scalars, views, zeros, and loads of operands from arrays that the kernel does not write.
  bool moves(const Op& op) const {
    if (!op.regions.empty()) return false;
    if (op.is("load")) return arrays_.facts(op.operands[0]).constant;
    return op.traits().pure() && (!is_tile(op.results[0]) || op.is("permute") || op.is("broadcast"));
  }
  void follow(const Op& op, Product& product) const {
    for (const Value* operand : op.operands) {
      const Op* made = operand->definition;
      if (!made || made->parent != &block_) continue;
      if (!moves(*made))
        product.computed.push_back(made);
      else if (product.moved.insert(made).second)
        follow(*made, product);
    }
  }

  bool is_placed(const Op* op) const { return placed_.count(op) != 0; }
  void place(const Op* op) {
    if (placed_.insert(op).second) order_.push_back(op);
  }
  // Places the products whose operands are computed.
  void place_products() {
    for (bool again = true; std::exchange(again, false);)
      for (const Product& product : products_) {
        const auto& needs = product.computed;
        if (is_placed(product.mma) ||
            !std::all_of(needs.begin(), needs.end(), [&](const Op* op) { return is_placed(op); }))
          continue;
        for (const auto& op : block_.ops)
          if (product.moved.count(op.get())) place(op.get());
        place(product.mma);
        again = true;
      }
  }

  Block& block_;
  const KernelArrays& arrays_;
  std::vector<Product> products_;
  std::vector<const Op*> order_;
  std::unordered_set<const Op*> placed_;
};

}  // namespace

void begin_products_early(Function& function) {
  const KernelArrays arrays(function);
  const std::function<void(Block&)> visit = [&](Block& block) {
    for (const auto& op : block.ops)
      for (const auto& region : op->regions) visit(*region);
    Early(block, arrays).run();
  };
  visit(function.body());
}

}  // namespace tile::cuda
