// Hints are attributes of the function: passes preserve them, targets read them.
#include "dsl/hints.h"

#include "dsl/tracer.h"
#include "support/error.h"

namespace tile {

void hint_threads(int power, Location location) {
  constexpr int most = 5;  // a block has at most 32 warps
  Function& function = Tracer::current(location).function();
  if (power < -most || power > most)
    fail(location, ErrorKind::value, "hint_threads: the power is ", power, "; it must be at least -", most,
         " and at most ", most);
  function.attributes().set("hint.threads", int64_t{power});
}

void hint_pairs(Location location) {
  Tracer::current(location).function().attributes().set("hint.num_ctas", int64_t{2});
}

}  // namespace tile
