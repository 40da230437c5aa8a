// Traces loop bodies twice and finds the values that they carry.
#include <algorithm>

#include "dsl/tracer.h"
#include "ir/print.h"
#include "ir/walk.h"

namespace tile {
namespace {
constexpr int checked_height = 3;  // deeper nests trace only inner loops twice: the cost is 2^height
}  // namespace

Value* Tracer::open_loop(std::vector<Value*> bounds, const Location& location) {
  raise_pending();
  check_reached(location);
  Scope scope;
  scope.block = std::make_unique<Block>();
  scope.loop = true;
  scope.first_variable = variables_.size();
  scope.bounds = std::move(bounds);
  scope.location = location;
  if (!scope.bounds.empty())
    scope.index = function_.add_argument(*scope.block, scope.bounds[0]->type, location);
  scopes_.push_back(std::move(scope));
  return scopes_.back().index;
}

void Tracer::jump(bool leaves, const Location& location) {
  raise_pending();
  const char* name = leaves ? "break_loop" : "continue_loop";
  size_t at = scopes_.size() - 1;
  while (at > 0 && !scopes_[at].loop) --at;
  if (at == 0)
    fail(location, ErrorKind::runtime, name,
         ": it is outside of any loop; call it inside range() or while_loop()");
  Scope& loop = scopes_[at];
  Value* next = leaves || !loop.index ? nullptr : next_index(loop);
  // emit() is for ops with a value.
  emit(primitive(leaves ? "break" : "continue"), {}, {}, location);
  Op* op = block_of(scopes_.back()).ops.back().get();
  scopes_.back().left = true;
  for (size_t inner = at + 1; inner < scopes_.size(); ++inner) {
    std::vector<std::pair<size_t, uint32_t>> order;
    for (const auto& [variable, position] : scopes_[inner].assigned) order.emplace_back(position, variable);
    std::sort(order.begin(), order.end());
    for (const auto& each : order) loop.assigned.emplace(each.second, loop.assigned.size());
  }
  loop.jumps.push_back({op, next, static_cast<int>(at), variables_});
}

// Returns index + step, or `high` if the sum would reach it, so that the sum does not wrap.
Value* Tracer::next_index(const Scope& scope) {
  Value *high = scope.bounds[1], *step = scope.bounds[2];
  const Location& at = scope.location;
  const auto make = [&](const char* name, std::vector<Value*> operands, Attributes attributes = {}) {
    return emit(primitive(name), std::move(operands), std::move(attributes), at);
  };
  const Attributes bits{{"dtype", unsigned_of(scope.index->type.dtype)}};
  Value* left = make("bitcast", {make("sub", {high, scope.index})}, bits);
  Value* goes_on = make("gt", {left, make("bitcast", {step}, bits)});
  return make("where", {goes_on, make("add", {scope.index, step}), high});
}

// Returns the body's text and the outer values that it uses; provisional arguments are named by their
// variable.
std::string Tracer::signature(const Scope& scope, const std::vector<std::pair<Seen, Value*>>& carried) {
  std::unordered_map<const Value*, std::string> names;
  for (const Seen& seen : scope.seen) names[seen.inner] = str("variable", seen.variable);
  names[scope.index] = "index";
  auto name_of = [&](const Value* value) {
    auto at = names.find(value);
    return at != names.end() ? at->second : str(static_cast<const void*>(value));
  };
  std::ostringstream text;
  text << print(*scope.block, false);
  walk(*scope.block, [&](const Op& op) {
    for (const Value* operand : op.operands)
      if (!defined_inside(operand, *scope.block) || names.count(operand)) text << name_of(operand) << ' ';
  });
  std::unordered_map<const Value*, size_t> order;
  walk(*scope.block, [&](const Op& op) {
    for (const Value* result : op.results) order.emplace(result, order.size());
  });
  for (const auto& [seen, last] : carried) {
    auto at = order.find(last);
    text << '\n' << seen.variable << " <- " << (at != order.end() ? str('#', at->second) : name_of(last));
    for (const Jump& jump : scope.jumps) {
      const Value* then = jump.value_of(seen);
      const auto made = order.find(then);
      text << ' ' << (made != order.end() ? str('#', made->second) : name_of(then));
    }
  }
  return text.str();
}

void Tracer::restart(Scope& scope) {
  for (const Seen& seen : scope.seen) {
    variables_[seen.variable].value = seen.outer;
    variables_[seen.variable].depth = depth() - 1;
  }
  forget_locals(scope);
  scope.seen.clear();
  scope.assigned.clear();
  scope.jumps.clear();
  scope.left = false;
  *scope.block = Block();
  if (scope.index) scope.index = function_.add_argument(*scope.block, scope.bounds[0]->type, scope.location);
}

// Builds the op of a closed scope with its body's terminators: `for`, or `loop` if the body jumps.
std::unique_ptr<Op> Tracer::loop_of(Scope& scope, const std::vector<std::pair<Seen, Value*>>& carried) {
  const bool counts = scope.index != nullptr, jumps = !counts || !scope.jumps.empty();
  auto loop = std::make_unique<Op>();
  loop->location = scope.location;
  loop->primitive = &primitive(jumps ? "loop" : "for");
  if (!jumps)
    loop->operands = scope.bounds;
  else if (counts)
    loop->operands = {scope.bounds[0]};
  for (const auto& each : carried) {
    loop->operands.push_back(each.first.outer);
    scope.block->arguments.push_back(each.first.inner);
  }
  for (const Jump& jump : scope.jumps) {
    if (counts) jump.op->operands.push_back(jump.next_index ? jump.next_index : scope.index);
    for (const auto& each : carried) jump.op->operands.push_back(jump.value_of(each.first));
  }
  if (!scope.left) {
    std::vector<Value*> ends;
    if (jumps && counts) ends.push_back(next_index(scope));
    for (const auto& each : carried) ends.push_back(each.second);
    end_block(*scope.block, jumps ? "continue" : "yield", std::move(ends), scope.location);
  }
  if (!jumps || !counts) return loop;
  // if (index < high) {} else break
  build_.location = scope.location;
  build_.at(*scope.block, 0);
  Value* inside = build_.emit("lt", {scope.index, scope.bounds[1]});
  auto test = std::make_unique<Op>();
  test->primitive = &primitive("if");
  test->location = scope.location;
  test->operands = {inside};
  for (const bool leaves : {false, true}) {
    test->regions.push_back(std::make_unique<Block>());
    end_block(*test->regions.back(), leaves ? "break" : "yield",
              leaves ? scope.block->arguments : std::vector<Value*>(), scope.location);
  }
  build_.insert(std::move(test));
  return loop;
}

bool Tracer::close_loop() {
  raise_pending();
  Scope& scope = scopes_.back();
  auto carried = changed(scope);
  if (scope.height <= checked_height) {
    std::string text = signature(scope, carried);
    if (scope.first_trace.empty()) {
      scope.first_trace = text;
      restart(scope);
      return false;
    }
    if (text != scope.first_trace)
      fail(scope.location, ErrorKind::runtime,
           "the loop body traced differently the second time: a plain C++ variable changes inside it; make "
           "it a Tile");
  }
  for (const auto& [seen, last] : carried) {
    const auto check = [&, outer = seen.outer](const Value* value, const char* where) {
      if (value && value->type != outer->type)
        fail(scope.location, ErrorKind::type, "a loop-carried Tile is ", outer->type, " before the loop (",
             outer->location, ") but ", value->type, where, value->location,
             "); give it one type, with astype() or zeros()");
    };
    check(last, " at the end of the body (");
    for (const Jump& jump : scope.jumps) check(jump.value_of(seen), " where the body is left (");
  }
  // The provisional argument of an unchanged variable is replaced by the outer value.
  ValueMap same;
  for (const Seen& seen : scope.seen) {
    if (seen.inner && seen.inner != seen.outer &&
        std::none_of(carried.begin(), carried.end(),
                     [&](const auto& c) { return c.first.variable == seen.variable; }))
      same[seen.inner] = seen.outer;
    variables_[seen.variable].value = seen.outer;
    variables_[seen.variable].depth = depth() - 1;
  }
  std::unique_ptr<Op> loop = loop_of(scope, carried);
  const size_t first = scope.index && loop->is("loop");  // the index is carried, too
  replace_uses(*scope.block, same);
  loop->regions.push_back(std::move(scope.block));
  std::vector<std::pair<Seen, Value*>> results = std::move(carried);
  int height = scope.height;
  forget_locals(scope);
  scopes_.pop_back();
  Scope& outer = scopes_.back();
  outer.height = std::max(outer.height, height + 1);
  build_.location = loop->location;
  build_.to_end(block_of(outer));
  Op& op = build_.insert(std::move(loop));
  for (size_t i = 0; i < results.size(); ++i) set(results[i].first.variable, op.results[first + i]);
  return true;
}

void Tracer::abandon_loop(const Location& location, bool unwinding) {
  if (scopes_.size() == 1) return;  // an error during closing has already popped it
  for (const Seen& seen : scopes_.back().seen) {
    variables_[seen.variable].value = seen.outer;
    variables_[seen.variable].depth = depth() - 1;
  }
  pop_scope();
  if (!unwinding)  // a destructor does not throw: the next operation does
    pending_ =
        str(location, ": the traced loop was left by break or return; a traced body must run to its end, ",
            "use where() or when() inside it");
}

}  // namespace tile
