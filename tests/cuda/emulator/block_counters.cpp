// The counters from which the CTAs of a launch draw blocks. A launch has one, and leaves it as it was.
#include "block_counters.h"

#include "asynchronous.h"
#include "report.h"

namespace tile::emulator {
namespace {

constexpr unsigned all_drawn = 1u << 30;

struct Counter {
  int number = -1;  // -1: the launch has not drawn yet
  unsigned drawn = 0;
  int by_cta = 0;  // that runs
  int closed = 0;
  bool is_closed = false;  // by the CTA that runs
  int cta = -1;
};
Counter counter;

void use(unsigned number, const char* does, int line) {
  if (counter.number >= 0 && static_cast<unsigned>(counter.number) != number)
    report(str(line_text(line), block_text(), does, "counter ", number, ", and the launch has counter ",
               counter.number));
  counter.number = static_cast<int>(number);
  if (counter.cta != here.block[0])
    counter.cta = here.block[0], counter.by_cta = 0, counter.is_closed = false;
  if (counter.is_closed) report(str(line_text(line), block_text(), does, "a queue that it has closed"));
}

}  // namespace

unsigned draw_block(unsigned number, int line) {
  use(number, " draws from ", line);
  const bool is_last = here.block[0] + 1 == here.grid[0];
  if (!is_last && counter.by_cta++ > here.block[0]) return all_drawn;
  return counter.drawn++;
}
void close_queue(unsigned number, int line) {
  use(number, " closes ", line);
  counter.is_closed = true;
  if (++counter.closed == here.grid[0]) counter.drawn = 0, counter.closed = 0;
}

void start_block_counter() { counter = {}; }
void check_block_counter() {
  if (counter.drawn || counter.closed)
    report(str("the launch leaves its counter of blocks at ", counter.drawn, ", and ", counter.closed, " of ",
               here.grid[0], " CTAs have closed the queue"));
}

}  // namespace tile::emulator
