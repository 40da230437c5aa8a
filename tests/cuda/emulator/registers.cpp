// The registers of a block, which its warpgroups give back and take (setmaxnreg).
#include <map>

#include "asynchronous.h"
#include "block.h"
#include "effects.h"
#include "report.h"

namespace tile::emulator {
namespace {

constexpr int all_registers = 65536, most = 256;
std::map<size_t, int> changed;  // of threads of the cluster that have not what they began with

// Returns what a thread has when the block begins: an equal part, in units of 8.
int at_first() {
  const int each = all_registers / static_cast<int>(threads_of_block()) / 8 * 8;
  return each < most ? each : most;
}
int registers_of(size_t thread) {
  const auto found = changed.find(thread);
  return found == changed.end() ? at_first() : found->second;
}
int taken() {
  int sum = 0;
  const size_t first = static_cast<size_t>(here.of_cluster) * threads_of_block();
  for (size_t i = first; i < first + threads_of_block(); ++i) sum += registers_of(i);
  return sum;
}

// A thread that waits until there are registers for its whole group: all of it goes on, or nothing.
class Registers : public Condition {
 public:
  explicit Registers(int count) : count_(count), thread_(running_thread()) {}
  bool holds() const override {
    int others = taken();
    const size_t first = thread_ / group * group;
    for (size_t i = first; i < first + group; ++i) others -= registers_of(i);
    return others + static_cast<int>(group) * count_ <= pool();
  }
  void pass() override { changed[thread_] = count_; }
  std::string text() const override {
    return str(count_, " registers a thread, of ", pool(), " that the block has and ", pool() - taken(),
               " that are free");
  }

 private:
  static constexpr size_t group = 128;
  int pool() const { return at_first() * static_cast<int>(threads_of_block()); }
  int count_;
  size_t thread_;
};

void check(const char* does, int count, bool right, int line) {
  const int own = registers_of(running_thread());
  if (!right || count % 8 || count < 24 || count > most)
    report(str(line_text(line), "thread ", here.thread, " of ", block_text(), does, count,
               " registers and has ", own, "; the numbers are multiples of 8 from 24 to ", most));
}

}  // namespace

void start_registers() { changed.clear(); }
void give_registers(int count, int line) {
  check(" keeps ", count, count <= registers_of(running_thread()), line);
  changed[running_thread()] = count;
}
void take_registers(int count, const Site& site) {
  check(" takes ", count, count >= registers_of(running_thread()), site.line);
  Registers free(count);
  wait_until(free, site);
}

}  // namespace tile::emulator
