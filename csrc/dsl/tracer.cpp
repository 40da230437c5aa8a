// Variables, scopes and loop-carried values.
#include "dsl/tracer.h"

#include <algorithm>
#include <atomic>

#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tile {
namespace {
thread_local Tracer* current_tracer = nullptr;
std::atomic<uint32_t> next_serial{1};
constexpr int checked_height = 3;  // deeper nests trace only their inner loops twice: the cost is 2^height
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
Tracer& Tracer::current(const Location& use) {
  if (!current_tracer)
    fail(use, ErrorKind::runtime,
         "a tile operation was used outside a kernel; it runs only while a kernel is traced");
  return *current_tracer;
}

uint32_t Tracer::new_variable(Value* value, const Location& location) {
  variables_.push_back({value, depth(), location});
  return static_cast<uint32_t>(variables_.size() - 1);
}

Value* Tracer::read(uint32_t variable, uint32_t trace, const Location& use) {
  if (trace != serial_)
    fail(use, ErrorKind::runtime,
         "this Tile belongs to another trace; make it inside the kernel that uses it");
  if (Value* value = touch(variable)) return value;
  fail(use, ErrorKind::runtime,
       "this Tile has no value here: it was never assigned, or it was made inside a loop ",
       "or branch that has ended (made at ", variables_[variable].location, "); assign it before the loop");
}

Value* Tracer::touch(uint32_t variable) {
  Variable& v = variables_[variable];
  for (int d = v.depth + 1; d <= depth(); ++d) {  // scopes entered since the variable was last seen
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
  if (trace != serial_)
    fail(use, ErrorKind::runtime,
         "this Tile belongs to another trace; make it inside the kernel that uses it");
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

Value* Tracer::emit(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes,
                    const Location& at) {
  raise_pending();
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

Value* Tracer::open_loop(Value* low, Value* high, Value* step, const Location& location) {
  raise_pending();
  Scope scope;
  scope.block = std::make_unique<Block>();
  scope.loop = true;
  scope.first_variable = variables_.size();
  scope.bounds = {low, high, step};
  scope.location = location;
  scope.index = function_.add_argument(*scope.block, low->type, location);
  scopes_.push_back(std::move(scope));
  return scopes_.back().index;
}

std::vector<std::pair<Tracer::Seen, Value*>> Tracer::changed(Scope& scope) {
  std::vector<std::pair<Seen, Value*>> carried;
  std::sort(scope.seen.begin(), scope.seen.end(),
            [](const Seen& a, const Seen& b) { return a.variable < b.variable; });
  for (const Seen& seen : scope.seen) {
    Value* last = variables_[seen.variable].value;
    if (seen.outer && last != seen.inner) carried.push_back({seen, last});
  }
  std::sort(carried.begin(), carried.end(), [&](const auto& a, const auto& b) {
    return scope.assigned.at(a.first.variable) < scope.assigned.at(b.first.variable);
  });
  return carried;
}

void Tracer::forget_locals(const Scope& scope) {
  for (size_t i = scope.first_variable; i < variables_.size(); ++i) variables_[i].value = nullptr;
}

// The body's text with what it names from outside, provisional arguments by their variable.
std::string Tracer::signature(const Scope& scope, const std::vector<std::pair<Seen, Value*>>& carried) {
  std::unordered_map<const Value*, std::string> names;
  for (const Seen& seen : scope.seen) names[seen.inner] = str("variable", seen.variable);
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
  *scope.block = Block();
  scope.index = function_.add_argument(*scope.block, scope.index->type, scope.location);
}

void Tracer::pop_scope() {
  forget_locals(scopes_.back());
  scopes_.pop_back();
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
  for (const auto& [seen, last] : carried)
    if (last && last->type != seen.outer->type)
      fail(scope.location, ErrorKind::type, "a loop-carried Tile is ", seen.outer->type, " before the loop (",
           seen.outer->location, ") but ", last->type, " at the end of the body (", last->location,
           "); give it one type, with astype() or zeros()");
  // Unchanged variables: the provisional argument is the outer value after all.
  ValueMap same;
  for (const Seen& seen : scope.seen) {
    if (seen.inner && seen.inner != seen.outer &&
        std::none_of(carried.begin(), carried.end(),
                     [&](const auto& c) { return c.first.variable == seen.variable; }))
      same[seen.inner] = seen.outer;
    variables_[seen.variable].value = seen.outer;
    variables_[seen.variable].depth = depth() - 1;
  }
  auto loop = std::make_unique<Op>();
  loop->primitive = &primitive("for");
  loop->location = scope.location;
  loop->operands = scope.bounds;
  auto end = std::make_unique<Op>();
  end->primitive = &primitive("yield");
  end->location = scope.location;
  end->parent = scope.block.get();
  for (const auto& [seen, last] : carried) {
    loop->operands.push_back(seen.outer);
    scope.block->arguments.push_back(seen.inner);
    end->operands.push_back(last);
  }
  scope.block->ops.push_back(std::move(end));
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
  for (size_t i = 0; i < results.size(); ++i) set(results[i].first.variable, op.results[i]);
  return true;
}

void Tracer::abandon_loop(const Location& location, bool unwinding) {
  if (scopes_.size() == 1) return;  // an error while closing popped it already
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

void Tracer::branch(Value* condition, const std::function<void()>& then,
                    const std::function<void()>& otherwise, const Location& location) {
  raise_pending();
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
    for (const auto& [seen, last] : changed(inner)) {
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
    if (m.ends[0]->type != m.ends[1]->type)
      fail(location, ErrorKind::type, "when: a Tile is ", m.ends[0]->type, " after one branch (",
           m.ends[0]->location, ") and ", m.ends[1]->type, " after the other (", m.ends[1]->location,
           "); give it one type");
  for (int side = 0; side < 2; ++side) {
    auto end = std::make_unique<Op>();
    end->primitive = &primitive("yield");
    end->location = location;
    end->parent = regions[static_cast<size_t>(side)].get();
    for (const Merge& m : merges) end->operands.push_back(m.ends[side]);
    regions[static_cast<size_t>(side)]->ops.push_back(std::move(end));
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
           " values for ", n, " tiles; it must give one a tile");
  } catch (...) {
    while (scopes_.size() >= expected) abandon_loop(location, true);
    throw;
  }
  auto end = std::make_unique<Op>();
  end->primitive = &tile::primitive("yield");
  end->location = location;
  end->operands = std::move(results);
  end->parent = scopes_.back().block.get();
  scopes_.back().block->ops.push_back(std::move(end));
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
