// cp.async: copies of up to 16 bytes to shared memory, which arrive when the thread waits for their group.
#include <cstring>
#include <deque>
#include <map>

#include "memory.h"

namespace tile::emulator {
namespace {

struct Copy {
  char* to;
  char bytes[16];
  int width, line;
};
struct Copies {
  std::vector<Copy> open;  // not yet in a group
  std::deque<std::vector<Copy>> groups;
};
std::map<std::pair<int, int>, Copies> all;  // of each thread of a cluster's blocks
Copies& of_thread() { return all[{here.of_cluster, here.thread}]; }

}  // namespace

void forget_copies() { all.clear(); }

void copy_async(void* to, const void* from, int bytes, int line, int width) {
  if (bytes < 0 || bytes > width)
    report(str(deed_text(line, Access::load), " ", bytes, " bytes for a copy of ", width));
  if (bytes) check_global(from, bytes, Access::load, false, line, width);
  begin_copy(to, width, line);
  Copy copy{static_cast<char*>(to), {}, width, line};
  std::memcpy(copy.bytes, from, static_cast<size_t>(bytes));
  of_thread().open.push_back(copy);
}

void commit_copies() {
  Copies& copies = of_thread();
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}

void wait_for_copies(int groups) {
  auto& under_way = of_thread().groups;
  for (; static_cast<int>(under_way.size()) > groups; under_way.pop_front())
    for (const Copy& copy : under_way.front()) {
      std::memcpy(copy.to, copy.bytes, static_cast<size_t>(copy.width));
      end_copy(copy.to, copy.width, copy.line);
    }
}

}  // namespace tile::emulator
