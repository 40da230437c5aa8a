// Implements variables, scopes, branches and combine regions; loops are in tracer_loops.cpp.
#include "dsl/tracer.h"

#include <algorithm>
#include <atomic>

#include "dsl/namespace_scope.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tile {
namespace {
thread_local Tracer* current_tracer = nullptr;
std::atomic<uint32_t> next_serial{1};
}  // namespace

Tracer::Tracer(std::string name)
    : function_(std::move(name)),
      build_(function_, function_.body()),
      serial_(next_serial++),
      outer_(current_tracer) {
  scopes_.emplace_back();
  current_tracer = this;
}
Tracer::~Tracer() { current_tracer = outer_; }

Tracer* Tracer::current_or_null() { return current_tracer; }
Tracer& Tracer::current(const Location& use) { return current_tracer ? *current_tracer : trace_outside(use); }

std::unique_ptr<Tracer> Tracer::unentered(std::string name) {
  Tracer* const before = current_tracer;
  auto made = std::make_unique<Tracer>(std::move(name));
  current_tracer = before;
  return made;
}

uint32_t Tracer::new_variable(Value* value, const Location& location) {
  variables_.push_back({value, depth(), location});
  return static_cast<uint32_t>(variables_.size() - 1);
}

void Tracer::check_own(uint32_t variable, uint32_t trace, const Location& use) const {
  if (trace == serial_) return;
  if (const std::optional<Location> origin = made_outside(variable, trace))
    fail(use, ErrorKind::runtime, "this Tile was made outside of any kernel (made at ", *origin,
         "); make it inside the kernel that uses it");
  fail(use, ErrorKind::runtime,
       trace ? "this Tile belongs to another trace" : "this Tile was made outside of any kernel",
       "; make it inside the kernel that uses it");
}

Value* Tracer::read(uint32_t variable, uint32_t trace, const Location& use) {
  check_own(variable, trace, use);
  if (Value* value = touch(variable)) return value;
  fail(use, ErrorKind::runtime,
       "this Tile has no value here: it was never assigned, or it was made inside a loop ",
       "or branch that has ended (made at ", variables_[variable].location, "); assign it before the loop");
}

Value* Tracer::touch(uint32_t variable) {
  Variable& v = variables_[variable];
  for (int d = v.depth + 1; d <= depth(); ++d) {  // scopes entered since the variable was last read
    Scope& scope = scopes_[static_cast<size_t>(d)];
    Value* inner = v.value;
    if (scope.loop && v.value)
      inner = function_.add_value(v.value->type, v.value->location, nullptr, scope.block.get());
    scope.seen.push_back({variable, v.value, inner});
    v.value = inner;
    v.depth = d;
  }
  return v.value;
}

void Tracer::assign(uint32_t variable, uint32_t trace, Value* value, const Location& use) {
  check_own(variable, trace, use);
  touch(variable);
  set(variable, value);
}

void Tracer::set(uint32_t variable, Value* value) {
  variables_[variable].value = value;
  auto& assigned = scopes_.back().assigned;
  assigned.emplace(variable, assigned.size());
}

void Tracer::raise_pending() {
  if (!pending_.empty()) throw Error(ErrorKind::runtime, std::exchange(pending_, {}));
}

void Tracer::check_reached(const Location& at) const {
  if (scopes_.back().left)
    fail(at, ErrorKind::runtime,
         "this follows break_loop() or continue_loop() and never runs; jump last, or inside when()");
}

Value* Tracer::emit(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes,
                    const Location& at) {
  raise_pending();
  check_reached(at);
  build_.location = at;
  build_.to_end(block_of(scopes_.back()));
  Op& op = build_.create(primitive, std::move(operands), std::move(attributes));
  return op.results.empty() ? nullptr : op.results[0];
}

void Tracer::check_visible(const Value* value, const char* what, const Location& use) {
  for (Scope& scope : scopes_)
    if (value->owner == &block_of(scope)) return;
  fail(use, ErrorKind::runtime, what, " was made inside a loop or branch that has ended (made at ",
       value->location, "); make it before the loop");
}

std::vector<std::pair<Tracer::Seen, Value*>> Tracer::changed(Scope& scope) {
  std::vector<std::pair<Seen, Value*>> carried;
  std::sort(scope.seen.begin(), scope.seen.end(),
            [](const Seen& a, const Seen& b) { return a.variable < b.variable; });
  for (const Seen& seen : scope.seen) {
    Value* last = variables_[seen.variable].value;
    const bool leaves = std::any_of(scope.jumps.begin(), scope.jumps.end(),
                                    [&](const Jump& jump) { return jump.value_of(seen) != seen.inner; });
    if (seen.outer && (last != seen.inner || leaves)) carried.push_back({seen, last});
  }
  std::sort(carried.begin(), carried.end(), [&](const auto& a, const auto& b) {
    return scope.assigned.at(a.first.variable) < scope.assigned.at(b.first.variable);
  });
  return carried;
}

void Tracer::forget_locals(const Scope& scope) {
  for (size_t i = scope.first_variable; i < variables_.size(); ++i) variables_[i].value = nullptr;
}

void Tracer::end_block(Block& block, std::string_view name, std::vector<Value*> operands,
                       const Location& location) {
  Builder end(function_, block);
  end.location = location;
  end.create(primitive(name), std::move(operands));
}

void Tracer::pop_scope() {
  forget_locals(scopes_.back());
  scopes_.pop_back();
}

void Tracer::branch(Value* condition, const std::function<void()>& then,
                    const std::function<void()>& otherwise, const Location& location) {
  raise_pending();
  check_reached(location);
  auto op = std::make_unique<Op>();
  op->primitive = &primitive("if");
  op->location = location;
  op->operands = {condition};
  struct Merge {
    uint32_t variable;
    Value* outer;
    Value* ends[2];
  };
  std::vector<Merge> merges;
  std::vector<std::unique_ptr<Block>> regions;
  bool left[2] = {};
  for (int side = 0; side < 2; ++side) {
    Scope scope;
    scope.block = std::make_unique<Block>();
    scope.first_variable = variables_.size();
    scopes_.push_back(std::move(scope));
    size_t expected = scopes_.size();
    try {
      if (side == 0)
        then();
      else if (otherwise)
        otherwise();
    } catch (...) {
      while (scopes_.size() >= expected) abandon_loop(location, true);
      throw;
    }
    raise_pending();
    Scope& inner = scopes_.back();
    left[side] = inner.left;
    for (const auto& [seen, last] : changed(inner)) {
      if (left[side]) break;  // the jump has its values
      auto at = std::find_if(merges.begin(), merges.end(),
                             [&, id = seen.variable](const Merge& m) { return m.variable == id; });
      if (at == merges.end())
        at = merges.insert(merges.end(), {seen.variable, seen.outer, {seen.outer, seen.outer}});
      at->ends[side] = last;
    }
    for (const Seen& seen : inner.seen) {
      variables_[seen.variable].value = seen.outer;
      variables_[seen.variable].depth = depth() - 1;
    }
    scopes_[scopes_.size() - 2].height = std::max(scopes_[scopes_.size() - 2].height, inner.height);
    regions.push_back(std::move(inner.block));
    pop_scope();
  }
  for (const Merge& m : merges)
    if (!left[0] && !left[1] && m.ends[0]->type != m.ends[1]->type)
      fail(location, ErrorKind::type, "when: a Tile is ", m.ends[0]->type, " after one branch (",
           m.ends[0]->location, ") and ", m.ends[1]->type, " after the other (", m.ends[1]->location,
           "); give it one type");
  for (int side = 0; side < 2; ++side) {
    if (left[side]) continue;
    std::vector<Value*> ends;
    for (const Merge& m : merges) ends.push_back(m.ends[side]);
    end_block(*regions[static_cast<size_t>(side)], "yield", std::move(ends), location);
  }
  op->regions = std::move(regions);
  build_.location = location;
  build_.to_end(block_of(scopes_.back()));
  Op& inserted = build_.insert(std::move(op));
  for (size_t i = 0; i < merges.size(); ++i) set(merges[i].variable, inserted.results[i]);
}

std::vector<Value*> Tracer::combine(const Primitive& primitive, std::vector<Value*> operands,
                                    const Combine& combine, Attributes attributes, const Location& location) {
  raise_pending();
  auto op = std::make_unique<Op>();
  op->primitive = &primitive;
  op->location = location;
  op->operands = std::move(operands);
  op->attributes = std::move(attributes);
  Scope scope;
  scope.block = std::make_unique<Block>();
  scope.first_variable = variables_.size();
  std::vector<Value*> arguments;
  for (int side = 0; side < 2; ++side)
    for (const Value* operand : op->operands)
      arguments.push_back(function_.add_argument(*scope.block, Type::tile(operand->type.dtype), location));
  scopes_.push_back(std::move(scope));
  size_t expected = scopes_.size();
  std::vector<Value*> results;
  try {
    const size_t n = op->operands.size();
    std::vector<Tile> sums, next;
    for (size_t i = 0; i < n; ++i) sums.emplace_back(arguments[i]);
    for (size_t i = 0; i < n; ++i) next.emplace_back(arguments[n + i]);
    for (const Tile& result : combine(std::move(sums), std::move(next)))
      results.push_back(result.value(location));
    if (results.size() != n)
      fail(location, ErrorKind::value, primitive.name, ": the function gives ", results.size(),
           " values for ", n, " tiles; it must give one per tile");
  } catch (...) {
    while (scopes_.size() >= expected) abandon_loop(location, true);
    throw;
  }
  end_block(*scopes_.back().block, "yield", std::move(results), location);
  for (const Seen& seen : scopes_.back().seen) {
    variables_[seen.variable].value = seen.outer;
    variables_[seen.variable].depth = depth() - 1;
  }
  op->regions.push_back(std::move(scopes_.back().block));
  pop_scope();
  build_.location = location;
  build_.to_end(block_of(scopes_.back()));
  return build_.insert(std::move(op)).results;
}

Function Tracer::finish() {
  raise_pending();
  TILE_CHECK(scopes_.size() == 1);
  for (Variable& variable : variables_) variable.value = nullptr;
  return std::move(function_);
}

}  // namespace tile
