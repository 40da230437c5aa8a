// Simplifies known control flow: branches on constants, loops with zero or one iteration, and carried values
// that do not change.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

class Control {
 public:
  explicit Control(Function& function) : rewrite_(function) {
    rewrite_.run(
        function.body(), [&](Op& op) { return visit(op); },
        [&](Op& op) {
          if (op.is("for") || op.is("loop")) unchanged(op);
        });
  }
  bool changed() const { return rewrite_.changed; }

 private:
  Keep visit(Op& op) {
    if (op.is("if")) return branch(op);
    if (op.is("for")) return counted(op);
    return Keep::yes;
  }

  Keep branch(Op& op) {
    std::optional<Constant> condition = constant_of(op.operands[0]);
    if (condition) return inline_region(op, op.region(condition->integer ? 0 : 1));
    const Op &then = *op.region(0).terminator(), &otherwise = *op.region(1).terminator();
    if (!then.is("yield") || !otherwise.is("yield")) return Keep::yes;
    for (size_t i = 0; i < op.results.size(); ++i)
      if (then.operands[i] == otherwise.operands[i]) rewrite_.replace(op.results[i], then.operands[i]);
    return Keep::yes;
  }

  Keep counted(Op& op) {
    std::optional<Constant> low = constant_of(op.operands[0]), high = constant_of(op.operands[1]),
                            step = constant_of(op.operands[2]);
    if (op.operands[0] == op.operands[1] ||
        (low && high && low->integer >= high->integer && is_signed(low->dtype)))
      return become(op, {op.operands.begin() + 3, op.operands.end()});
    if (!low || !high || !step || !is_signed(low->dtype)) return Keep::yes;
    uint64_t distance =
        static_cast<uint64_t>(high->integer) - static_cast<uint64_t>(low->integer);  // high > low
    bool one_iteration = step->integer > 0 && distance <= static_cast<uint64_t>(step->integer);
    if (!one_iteration) return Keep::yes;
    ValueMap map;
    Block& body = op.region();
    for (size_t i = 0; i < body.arguments.size(); ++i)
      map[body.arguments[i]] = i == 0 ? op.operands[0] : op.operands[2 + i];
    replace_uses(body, map);
    return inline_region(op, body);
  }

  Keep become(Op& op, const std::vector<Value*>& values) {
    for (size_t i = 0; i < op.results.size(); ++i) rewrite_.replace(op.results[i], values[i]);
    return Keep::no;
  }

  // The region's ops replace the op. A region that leaves the loop ends the surrounding block.
  Keep inline_region(Op& op, Block& region) {
    std::unique_ptr<Op> end = std::move(region.ops.back());
    region.ops.pop_back();
    for (auto& inner : region.ops) rewrite_.append(std::move(inner));
    region.ops.clear();
    if (end->is("yield")) return become(op, end->operands);
    rewrite_.append(std::move(end));
    return Keep::last;
  }

  // A value that every iteration passes on unchanged equals its initial value.
  void unchanged(Op& op) {
    size_t first = op.is("for") ? 3 : 0, index = op.is("for") ? 1 : 0;
    for (size_t i = 0; i + first < op.operands.size(); ++i) {
      Value *argument = op.region().arguments[index + i], *initial = op.operands[first + i];
      bool passes = true;
      for (const Op* jump : ends_of(op))
        passes &= jump->operands[i] == argument || jump->operands[i] == initial;
      if (!passes) continue;
      rewrite_.replace(argument, initial);
      rewrite_.replace(op.results[i], initial);
    }
  }

  static std::vector<const Op*> ends_of(const Op& loop) {
    if (loop.is("for")) return {loop.region().terminator()};
    std::vector<const Op*> ends;
    collect(loop.region(), ends);
    return ends;
  }
  static void collect(const Block& block, std::vector<const Op*>& ends) {
    for (const auto& op : block.ops) {
      if (op->is("break") || op->is("continue")) ends.push_back(op.get());
      if (op->is("if"))
        for (const auto& region : op->regions) collect(*region, ends);
    }
  }

  Rewriter rewrite_;
};

}  // namespace

bool simplify_control(Function& function) { return Control(function).changed(); }

}  // namespace tile
