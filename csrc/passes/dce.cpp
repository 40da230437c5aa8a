// Dead code elimination: removes ops without effect whose results are unused, and unused carried values and
// branch results.
#include "ir/walk.h"
#include "passes/liveness.h"
#include "passes/passes.h"

namespace tile {
namespace {

class Sweeper {
 public:
  explicit Sweeper(Function& function) : live_(function.body()) { sweep(function.body()); }
  bool changed = false;

 private:
  template <class T>
  void keep(std::vector<T>& list, size_t first, const std::vector<bool>& mask) {
    size_t to = first;
    for (size_t i = first; i < list.size(); ++i)
      if (mask[i - first]) list[to++] = list[i];
    list.resize(to);
  }

  void sweep(Block& block) {
    size_t before = block.ops.size();
    std::erase_if(block.ops, [&](const std::unique_ptr<Op>& op) { return !live_.live(*op); });
    changed |= block.ops.size() != before;
    for (auto& op : block.ops) {
      narrow(*op);
      for (auto& region : op->regions) sweep(*region);
    }
  }

  // Removes the unused positions of a structured op.
  void narrow(Op& op) {
    bool counted = op.is("for"), loop = op.is("loop");
    if (!counted && !loop && !op.is("if")) return;
    std::vector<bool> mask;
    bool all = true;
    for (size_t i = 0; i < op.results.size(); ++i) {
      bool live = live_.live(op.results[i]);
      if (counted) live |= live_.live(op.region().arguments[i + 1]);
      mask.push_back(live);
      all &= live;
    }
    if (all) return;
    changed = true;
    keep(op.results, 0, mask);
    if (counted) {
      keep(op.operands, 3, mask);
      keep(op.region().arguments, 1, mask);
    } else if (loop) {
      keep(op.operands, 0, mask);
      keep(op.region().arguments, 0, mask);
      walk(op.region(), [&](Op& inner) {
        if ((inner.is("break") || inner.is("continue")) && loop_around(inner) == &op)
          keep(inner.operands, 0, mask);
      });
    }
    for (auto& region : op.regions)
      if (Op* end = region->terminator(); end->is("yield")) keep(end->operands, 0, mask);
  }

  Liveness live_;
};

}  // namespace

bool dce(Function& function) { return Sweeper(function).changed; }

}  // namespace tile
