// Checks bounds, alignment, unwritten bytes and races of shared memory.
#include "asynchronous.h"
#include "block.h"
#include "effects.h"
#include "memory.h"

namespace tile::emulator {
namespace {

constexpr int most_blocks = 16, most_bytes = 256 * 1024;
alignas(1024) char memory[most_blocks][most_bytes];
struct Byte : TouchedByte {
  int copies = 0;  // in flight to this byte
};
std::vector<std::vector<Byte>> touched_of;  // of each block of the cluster
std::vector<std::vector<Order>> order_of;   // the same, if warpgroups run different code

}  // namespace

char* shared_memory() { return memory[here.of_cluster]; }

void start_shared_memory(int blocks, int bytes) {
  if (bytes > most_bytes)
    report(
        str("the launch asks for ", bytes, " bytes of shared memory, and no GPU has more than ", most_bytes));
  if (blocks > most_blocks)
    report(
        str("the launch asks for clusters of ", blocks, " blocks, and no GPU has more than ", most_blocks));
  touched_of.assign(static_cast<size_t>(blocks), std::vector<Byte>(static_cast<size_t>(bytes)));
}

namespace {

void check(int block, int64_t offset, int bytes, Access access, int line) {
  std::vector<Byte>& touched = touched_of[static_cast<size_t>(block)];
  const auto deed = [&] {
    return str(deed_text(line, access), " ", bytes, " bytes at ", offset, " of ",
               block == here.of_cluster ? std::string() : str("block ", block, "'s "), "shared memory");
  };
  if (offset < 0 || offset + bytes > static_cast<int64_t>(touched.size()))
    report(str(deed(), ", of which the kernel has ", touched.size()));
  if (offset % bytes) report(str(deed(), ", which is no multiple of ", bytes));
  for (int64_t i = offset; i < offset + bytes; ++i) {
    const Byte& byte = touched[static_cast<size_t>(i)];
    if (byte.copies)
      report(str(deed(), ", and the copy that thread ", byte.writes.last().thread, " began",
                 byte.writes.last().line ? str(" at line ", byte.writes.last().line) : std::string(),
                 " is not waited for"));
    if (here.grouped) {
      Order& order = order_of[static_cast<size_t>(block)][static_cast<size_t>(i)];
      if (access != Access::store && !order.write().happened())
        report(str(deed(), ", and nobody wrote byte ", i));
      if (const Record* other = order.race(own_clock(), access)) report(deed() + other->text());
      order.note(own_clock(), record_now(access, line));
      continue;
    }
    if (access != Access::store && !byte.writes.last().happened())
      report(str(deed(), ", and nobody wrote byte ", i));
    if (const Touch* other = byte.race(access)) report(deed() + other->text());
    touched[static_cast<size_t>(i)].note(access, line);
  }
}
int64_t offset_of(const void* at) { return static_cast<const char*>(at) - shared_memory(); }

}  // namespace

void check_shared(const void* at, int bytes, Access access, int line) {
  check(here.of_cluster, offset_of(at), bytes, access, line);
}

void* check_shared_of(int block, void* at, int bytes, int line) {
  const auto deed = [&] {
    return str(deed_text(line, Access::store), " to the shared memory of block ", block, " of its cluster, ");
  };
  const auto blocks = static_cast<int>(touched_of.size());
  if (block < 0 || block >= blocks) report(str(deed(), "which has ", blocks));
  if (block != here.of_cluster && here.waited == 0)
    report(str(deed(), "which may not have begun: no barrier of the cluster precedes it"));
  if (block_has_ended(block)) report(str(deed(), "which has ended"));
  check(block, offset_of(at), bytes, Access::store, line);
  return memory[block] + offset_of(at);
}

int64_t shared_offset(const void* at) { return offset_of(at); }
char* shared_memory_of(int block) {
  if (block < 0 || block >= static_cast<int>(touched_of.size()))
    report(str("thread ", here.thread, " of ", block_text(), " names block ", block,
               " of its cluster, which has ", touched_of.size()));
  return memory[block];
}

void start_shared_order() {
  order_of.clear();
  for (const auto& touched : touched_of) order_of.emplace_back(touched.size());
}

void check_effect(int block, int64_t offset, int64_t bytes, const Clock& known, const Record& record,
                  const char* deed) {
  std::vector<Order>& orders = order_of[static_cast<size_t>(block)];
  const auto begin = [&] {
    return str(line_text(record.line), "thread ", record.thread, " of ", block_text(), " ", deed, " ", bytes,
               " bytes at ", offset, " of ",
               block == here.of_cluster ? std::string() : str("block ", block, "'s "), "shared memory");
  };
  if (offset < 0 || offset + bytes > static_cast<int64_t>(orders.size()))
    report(str(begin(), ", of which the kernel has ", orders.size()));
  for (int64_t i = offset; i < offset + bytes; ++i) {
    Order& order = orders[static_cast<size_t>(i)];
    const Record& write = order.write();
    if (only_reads(record.access) && !write.happened()) report(str(begin(), ", and nobody wrote byte ", i));
    if (const Record* other = order.race(known, record.access)) report(begin() + other->text());
    if (only_reads(record.access) && write.actor == Actor::thread && !fenced(write, known))
      report(str(begin(), "; thread ", write.thread, " wrote it",
                 write.line ? str(" at line ", write.line) : std::string(),
                 ", and did not call fence_async() before it passed a barrier"));
    order.note(known, record);
  }
}

void begin_copy(const void* at, int bytes, int line) {
  check_shared(at, bytes, Access::store, line);
  auto& touched = touched_of[static_cast<size_t>(here.of_cluster)];
  for (int64_t i = offset_of(at), end = i + bytes; i < end; ++i) ++touched[static_cast<size_t>(i)].copies;
}
void end_copy(const void* at, int bytes, int line) {
  auto& touched = touched_of[static_cast<size_t>(here.of_cluster)];
  for (int64_t i = offset_of(at), end = i + bytes; i < end; ++i) {
    Byte& byte = touched[static_cast<size_t>(i)];
    --byte.copies;
    byte.note(Access::store, line);
  }
}

}  // namespace tile::emulator
