// Hints are attributes of the function: passes keep them, targets read them.
#include "dsl/hints.h"

#include "dsl/tracer.h"

namespace tile {

void hint_threads(int power, Location location) {
  Tracer::current(location).function().attributes().set("hint.threads", int64_t{power});
}

}  // namespace tile
