// Opens and closes traced loops and branches.
#include "dsl/range.h"

#include <exception>

#include "dsl/tracer.h"
#include "ir/walk.h"

namespace tile {
namespace {

// Rejects a constant step below 1, and asserts at run time that any other step is at least 1. A loop with a
// smaller step would run forever or not at all.
void require_step(Value* step, const Location& location) {
  if (const std::optional<Constant> known = constant_of(step)) {
    if (known->integer > 0) return;
    fail(location, ErrorKind::value, "range: the step is ", known->integer, "; it must be at least 1");
  }
  Value* zero = emit("constant", {}, {{"dtype", step->type.dtype}, {"value", int64_t{0}}}, location);
  emit(primitive("assert"), {emit("gt", {step, zero}, {}, location)},
       {{"message", std::string("range: the step must be at least 1")}}, location);
}

}  // namespace

Range::Range(Operand low, Operand high, Operand step, Location location) : location_(location) {
  DType dtype = DType::i32;
  for (const Operand* bound : {&low, &high, &step}) {
    if (!bound->value) continue;
    if (!bound->value->type.is_scalar() || !is_integer(bound->value->type.dtype))
      fail(location, ErrorKind::type, "range: a bound is ", bound->value->type,
           "; it must be an integer scalar, cast it with astype()");
    dtype = bound->value->type.dtype;
  }
  low_ = low.as(dtype, "range");
  high_ = high.as(dtype, "range");
  step_ = step.as(dtype, "range");
  require_step(step_, location);
}

Range::~Range() {
  if (!open_) return;
  if (Tracer* tracer = Tracer::current_or_null())
    tracer->abandon_loop(location_, std::uncaught_exceptions() > exceptions_);
}

Range::Iterator Range::begin() {
  index_ = Tracer::current(location_).open_loop({low_, high_, step_}, location_);
  exceptions_ = std::uncaught_exceptions();
  open_ = true;
  return {*this};
}

bool Range::close() {
  Tracer& tracer = Tracer::current(location_);
  if (!tracer.close_loop()) {  // trace the body a second time, with a new index
    index_ = tracer.loop_index();
    return false;
  }
  open_ = false;
  return true;
}

void while_loop(const std::function<Tile()>& condition, const std::function<void()>& body,
                Location location) {
  Tracer& tracer = Tracer::current(location);
  tracer.open_loop({}, location);
  try {
    do {
      Value* goes_on = condition().value(location);
      if (!goes_on->type.is_scalar() || goes_on->type.dtype != DType::boolean)
        fail(location, ErrorKind::type, "while_loop: the condition is ", goes_on->type,
             "; it must be a bool scalar, reduce it with any() or all()");
      tracer.branch(
          goes_on, [] {}, [&] { tracer.jump(true, location); }, location);
      body();
    } while (!tracer.close_loop());
  } catch (...) {
    tracer.abandon_loop(location, true);
    throw;
  }
}

void break_loop(Location location) { Tracer::current(location).jump(true, location); }
void continue_loop(Location location) { Tracer::current(location).jump(false, location); }

void when(Operand condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
  if (!condition.value || !condition.value->type.is_scalar() || condition.value->type.dtype != DType::boolean)
    fail(condition.location, ErrorKind::type, "when: the condition must be a bool scalar Tile, got ",
         condition.value ? str(condition.value->type) : std::string("a plain C++ value"),
         "; use if for plain values");
  Tracer::current(condition.location).branch(condition.value, then, otherwise, condition.location);
}

}  // namespace tile
