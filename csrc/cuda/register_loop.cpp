// Defers ops and emits the register loops that compute them.
#include "cuda/register_loop.h"

#include <algorithm>
#include <utility>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "cuda/storage_narrowing.h"
#include "ir/walk.h"

namespace tile::cuda {
std::string Elements::joined() const {
  return join(operands_, ", ", [](const Operand& operand) { return operand.element; });
}

LoopSums loop_sums(const Function& function) {
  constexpr int64_t large = 2048;
  LoopSums sums;
  bool multiplies = false;
  walk(function.body(), [&](const Op& op) { multiplies = multiplies || op.is("mma"); });
  if (multiplies) return sums;
  walk(function.body(), [&](const Op& loop) {
    const bool carried =
        loop.is("for") && std::any_of(loop.results.begin(), loop.results.end(), [](const Value* value) {
          return element_count(value->type.shape) >= large;
        });
    if (!carried) return;
    sums.large = true;
    walk(loop.region(), [&](const Op& op) { sums.reduces = sums.reduces || cuda::reduces(op); });
  });
  return sums;
}

namespace {
bool divides_loops(const Op& op) {
  const LoweringRule* lowering = find_lowering(op.name());
  return lowering && (lowering->divides_loops || op.has("early"));
}
}  // namespace

RegisterLoops::RegisterLoops(Emitter& emitter, const Function& function) : emitter_(emitter) {
  wanted_ = emitter.configuration().rematerialize;
  // Products read whole tiles.
  walk(function.body(), [&](const Op& op) {
    wanted_ = wanted_ && !op.is("mma");
    for (const Value* operand : op.operands) users_[operand].push_back(&op);
  });
}

// A value that is deferred before a loop or a branch must not be computed in each of its iterations.
void RegisterLoops::before_regions(const Op& op) {
  for (const auto& region : op.regions)
    tile::walk(*region, [&](const Op& inner) {
      for (const Value* operand : inner.operands)
        if (waits(operand)) write(operand);
    });
}

// Returns true if each register of the result depends only on registers of the same thread.
bool RegisterLoops::has_elements(const Op& op) const {
  const LoweringRule* lowering = find_lowering(op.name());
  if (!lowering || !lowering->element || op.results.size() != 1 || !is_tile(op.results[0])) return false;
  if (lowering->by_elements && !lowering->by_elements(op)) return false;
  const Layout& to = emitter_.layout_of(op.results[0]);
  constexpr int many = 8;
  if (!to.across_blocks() && to.registers() < many) return false;
  return std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* operand) {
    return !is_tile(operand) || emitter_.registers_of(op, operand);
  });
}

// Returns the op whose loop computes all that is made of the op's result, or null: there are several.
const Op* RegisterLoops::end_of(const Op& op) const {
  if (const auto known = ends_.find(&op); known != ends_.end()) return known->second;
  const Op* end = nullptr;
  bool one = true;
  for (const Op* user : users_.at(op.results[0])) {
    const Op* at = has_elements(*user) && joins_users(*user, true) ? end_of(*user) : user;
    one = one && at && (!end || at == end);
    end = at;
  }
  return ends_[&op] = one ? end : nullptr;
}

// Returns true if the loops of the result's users, which follow soon, can compute it without computing it
// twice. Wide integers take two registers each, so those with several users join these where all end in one
// loop. deferred: the operands are.
bool RegisterLoops::joins_users(const Op& op, bool deferred) const {
  const Value* value = op.results[0];
  const auto users = users_.find(value);
  if (users == users_.end()) return false;
  const bool wide = is_integer(value->type.dtype) && info(value->type.dtype).bytes == 8;
  if (users->second.size() > 1 && !repeats_scalar(value) && !(wide && end_of(op))) return false;
  // It is cheaper to widen two adjacent 16-bit elements together.
  if (op.is("astype") && info(op.type(0).dtype).bytes < 4 && !deferred && !waits(op.operands[0]))
    return false;
  size_t left = users->second.size();
  const auto& ops = op.parent->ops;
  auto next = std::find_if(ops.begin(), ops.end(), [&](const auto& other) { return other.get() == &op; });
  for (++next; left && next != ops.end() && (*next)->regions.empty() && !divides_loops(**next); ++next) {
    const auto uses =
        static_cast<size_t>(std::count(users->second.begin(), users->second.end(), next->get()));
    if (uses && !(has_elements(**next) && in_place(**next, value))) return false;
    left -= uses;
  }
  return !left;
}

bool RegisterLoops::defer(const Op& op) {
  if (!has_elements(op)) return false;
  const auto waits_here = [&](const Value* operand) { return waits(operand); };
  const bool joins = wanted_ || joins_users(op);
  if (!joins && std::none_of(op.operands.begin(), op.operands.end(), waits_here)) return false;
  waiting_.emplace(op.results[0], &op);
  if (!joins) write(op.results[0]);
  return true;
}

// Returns true if register r of the result depends on register r of the operand, or if that is a scalar.
bool RegisterLoops::in_place(const Op& op, const Value* operand) const {
  const std::optional<std::vector<int>> from = emitter_.registers_of(op, operand);
  for (size_t r = 0; from && r < from->size(); ++r)
    if ((*from)[r] != static_cast<int>(r)) return false;
  return true;
}

bool RegisterLoops::reads_once(const Block& body, const Value* argument) const {
  const auto users = users_.find(argument);
  if (!wanted_ || users == users_.end() || users->second.size() != 1) return false;
  const Op& user = *users->second[0];
  return user.parent == &body && !user.is("astype") && has_elements(user) && in_place(user, argument);
}

// Emits the tiles that a loop for the value reads at other registers.
void RegisterLoops::prepare(const Value* value) {
  const auto known = waiting_.find(value);
  if (known == waiting_.end() || !prepared_.insert(value).second) return;
  const Op& op = *known->second;
  for (const Value* operand : op.operands) {
    prepare(operand);
    if (waits(operand) && !in_place(op, operand)) write(operand);
  }
}

// Returns the element at r; may emit lines inside the loop for it.
Elements::Operand RegisterLoops::element(const Value* value) {
  if (!is_tile(value)) return {emitter_.name(value), ""};
  const auto known = waiting_.find(value);
  if (known == waiting_.end()) {
    const std::string tile = emitter_.name(value);
    return {tile + ".x[r]", tile};
  }
  if (const auto made = inside_.find(value); made != inside_.end()) return {made->second, ""};
  const Op& op = *known->second;
  std::vector<Elements::Operand> operands;
  for (const Value* operand : op.operands) {
    if (in_place(op, operand))
      operands.push_back(element(operand));
    else
      operands.push_back(
          {str("picked(", emitter_.name(operand), ", r, [](int r) { ",
               map_text(*emitter_.registers_of(op, operand), emitter_.layout_of(value)), " })"),
           ""});
  }
  const Elements elements(std::move(operands));
  const LoweringRule& lowering = *find_lowering(op.name());
  // An op that only changes the shape needs no line.
  if (op.operands.size() == 1 && op.type(0).dtype == value->type.dtype && lowering.moves) return elements[0];
  const std::string name = emitter_.temporary();
  emitter_.line(
      op, str("const ", value->type.dtype, " ", name, " = ", lowering.element(emitter_, op, elements), ";"));
  inside_[value] = name;
  if (const auto kept = kept_.find(value); kept != kept_.end())
    emitter_.line(op, str(kept->second, ".x[r] = ", name, ";"));
  return {name, ""};
}

// Declares tiles that a loop for the value also fills, because later loops read them: 16-bit tiles that are
// made by rounding.
void RegisterLoops::keep(const Value* value) {
  const auto known = waiting_.find(value);
  if (known == waiting_.end() || kept_.count(value)) return;
  const Op& op = *known->second;
  for (const Value* operand : op.operands)
    if (in_place(op, operand)) keep(operand);
  if (!rounds(op)) return;
  const std::string name = emitter_.fresh_name(value);
  emitter_.line(op, str(emitter_.type(value->type, emitter_.layout_of(value)), " ", name, ";"));
  kept_.emplace(value, name);
}

void RegisterLoops::begin(int registers, const Op& op) {
  emitter_.line(op, str("TILE_UNROLL for (int r = 0; r < ", registers, "; ++r) {"));
  emitter_.indent(1);
  inside_.clear();
}
void RegisterLoops::end() {
  inside_.clear();
  for (const auto& [value, name] : kept_) waiting_.erase(value);
  kept_.clear();
  emitter_.indent(-1);
  emitter_.close();
}

void RegisterLoops::write(const Value* value) {
  const Op& op = *waiting_.at(value);
  const std::unordered_set<const Value*> outer = std::exchange(prepared_, {});
  prepare(value);
  prepared_ = outer;
  const Layout& layout = emitter_.layout_of(value);
  const std::string name = emitter_.fresh_name(value);
  emitter_.line(op, str(emitter_.type(value->type, layout), " ", name, ";"));
  for (const Value* operand : op.operands)
    if (in_place(op, operand)) keep(operand);
  begin(layout.registers(), op);
  const std::string made = element(value).element;
  emitter_.line(op, str(name, ".x[r] = ", made, ";"));
  end();
  waiting_.erase(value);
}

void RegisterLoops::add_up(const std::vector<Sum>& sums) {
  const auto registers = [&](const Sum& sum) { return emitter_.layout_of(sum.op->operands[0]).registers(); };
  for (const Sum& sum : sums) emitter_.line(*sum.op, str(sum.type, " ", sum.name, " = ", sum.start, ";"));
  prepared_.clear();
  for (const Sum& sum : sums) prepare(sum.op->operands[0]);
  for (size_t i = 0; i < sums.size();) {
    const int count = registers(sums[i]);
    for (size_t k = i; k < sums.size() && registers(sums[k]) == count; ++k) keep(sums[k].op->operands[0]);
    begin(count, *sums[i].op);
    for (; i < sums.size() && registers(sums[i]) == count; ++i) {
      const std::string made = element(sums[i].op->operands[0]).element;
      emitter_.line(*sums[i].op, str(sums[i].step, made, ");"));
    }
    end();
  }
}

}  // namespace tile::cuda
