// Copies of boxes between global and shared memory (TMA). A copy to shared memory is applied when a thread
// cannot go on without it, and one to global memory when it is waited for or when all threads have ended.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>

#include "asynchronous.h"
#include "block.h"
#include "effects.h"
#include "floats.h"
#include "memory.h"

namespace tile::emulator {
namespace {

constexpr int most_axes = 5, chunk = 16;

struct Map {
  char* address;
  uint32_t rank, element_bytes, swizzle, magic;
  struct {
    uint32_t size, box;
  } axes[most_axes];           // innermost first
  int64_t strides[most_axes];  // in bytes
  uint32_t rounds;             // copies to shared memory round f32 to tf32
};

std::string who(int line) { return str(line_text(line), "thread ", here.thread, " of ", block_text()); }

// Returns the map; reports what the driver or the hardware would refuse.
Map decode(const void* from, int rank, int line) {
  Map map;
  std::memcpy(&map, from, sizeof map);
  const auto wrong = [&](const std::string& what) { report(str(who(line), " uses a tensor map ", what)); };
  if (map.magic != 0x54494c45) wrong("that is none");
  if (static_cast<int>(map.rank) != rank) wrong(str("of ", map.rank, " axes with ", rank, " coordinates"));
  const uint32_t row = map.axes[0].box * map.element_bytes;
  if (reinterpret_cast<uintptr_t>(map.address) % chunk)
    wrong("whose array does not begin at a multiple of 16 bytes");
  if (map.strides[0] != map.element_bytes) wrong("whose innermost axis is not contiguous");
  if (row % chunk) wrong(str("whose box has rows of ", row, " bytes, which is no multiple of 16"));
  if (map.swizzle && row != map.swizzle)
    wrong(str("with a swizzle of ", map.swizzle, " bytes and rows of ", row));
  if (map.swizzle & ~0xe0u || (map.swizzle & (map.swizzle - 1)))
    wrong(str("with a swizzle of ", map.swizzle, " bytes"));
  for (int i = 0; i < rank; ++i) {
    if (map.axes[i].box < 1 || map.axes[i].box > 256)
      wrong(str("with ", map.axes[i].box, " elements along axis ", i, " of its box"));
    if (i && (map.strides[i] % chunk || map.strides[i] < 0))
      wrong(str("with a stride of ", map.strides[i], " bytes"));
  }
  return map;
}

int64_t box_bytes(const Map& map) {
  int64_t bytes = map.element_bytes;
  for (uint32_t i = 0; i < map.rank; ++i) bytes *= map.axes[i].box;
  return bytes;
}

// The part of a row of the box that lies in the array, and where the row is in shared memory.
struct Row {
  char* global;            // the first byte inside
  int64_t shared;          // the offset of the row's first byte in the box
  int64_t before, inside;  // bytes of the row
};
std::vector<Row> rows_of(const Map& map, const int* at) {
  std::vector<Row> rows;
  const int64_t width = map.axes[0].box;
  int64_t count = 1;
  for (uint32_t i = 1; i < map.rank; ++i) count *= map.axes[i].box;
  for (int64_t row = 0; row < count; ++row) {
    bool exists = true;
    uint64_t offset = 0;  // the sum may pass 2^64, as the hardware's does
    int64_t left = row;
    for (uint32_t i = 1; i < map.rank; ++i) {
      const int64_t place = at[i] + left % map.axes[i].box;
      left /= map.axes[i].box;
      exists = exists && place >= 0 && place < map.axes[i].size;
      offset += static_cast<uint64_t>(place) * static_cast<uint64_t>(map.strides[i]);
    }
    char* const global = map.address + static_cast<int64_t>(offset);
    const int64_t first = std::clamp<int64_t>(-at[0], 0, width),
                  end = std::clamp<int64_t>(static_cast<int64_t>(map.axes[0].size) - at[0], first, width);
    const int64_t bytes = map.element_bytes;
    rows.push_back({global + (at[0] + first) * bytes, row * width * bytes, first * bytes,
                    exists ? (end - first) * bytes : 0});
  }
  return rows;
}

// Returns the bytes of a row that lie in the array, as a copy to shared memory writes them.
std::vector<char> bytes_of(const Map& map, const Row& row) {
  std::vector<char> bytes(row.global, row.global + row.inside);
  for (size_t i = 0; map.rounds && i < bytes.size(); i += sizeof(unsigned)) {
    unsigned element;
    std::memcpy(&element, &bytes[i], sizeof element);
    element = bits_of_tf32(element);
    std::memcpy(&bytes[i], &element, sizeof element);
  }
  return bytes;
}

// Returns where a byte of shared memory lies if 16-byte chunks are permuted by the address bits from 7 on.
int64_t swizzled(int64_t offset, uint32_t swizzle) {
  const int64_t mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
  return offset ^ ((offset >> 7 & mask) << 4);
}
template <class Visit>  // visit(offset in shared memory, byte of the row)
void each_byte(const Map& map, int64_t to, const Row& row, const Visit& visit) {
  const int64_t bytes = static_cast<int64_t>(map.axes[0].box) * map.element_bytes;
  for (int64_t i = 0; i < bytes; ++i) visit(swizzled(to + row.shared + i, map.swizzle), i);
}

void check_alignment(int64_t offset, int line) {
  if (offset % 128)
    report(str(who(line), " copies a box at ", offset, " of shared memory, which is no multiple of 128"));
}

struct Write {
  char* to;
  std::vector<char> bytes;
};
struct Commit {
  std::vector<Write> writes;
  Record record;  // of its last store
};
// A thread's stores. The groups that it has committed have the numbers from 1 on.
struct Stores {
  Agent reads = new_agent();
  unsigned committed = 0, read = 0;
  Commit open;
  std::deque<Commit> groups;  // committed and not written
};
std::map<size_t, Stores> stores;  // by thread of the cluster

void write(const Commit& group) {
  for (const Write& each : group.writes) std::memcpy(each.to, each.bytes.data(), each.bytes.size());
}

}  // namespace

void copy_tensor(void* to, const void* from, const void* barrier, const int* at, int rank, unsigned blocks,
                 int line) {
  const Map map = decode(from, rank, line);
  const int64_t offset = shared_offset(to), signal = shared_offset(barrier), bytes = box_bytes(map);
  check_alignment(offset, line);
  const std::vector<Row> rows = rows_of(map, at);
  // A thread that has waited for the copy also knows that the array has been read. If the copy goes to
  // several blocks, no thread knows that.
  const bool to_one = !(blocks & (blocks - 1));
  for (const Row& row : rows) {
    const int inside = static_cast<int>(row.inside), alignment = static_cast<int>(map.element_bytes);
    if (!inside) continue;
    if (to_one)
      check_global_read(row.global, inside, alignment,
                        record_of(Actor::copy, moment_of_barrier(std::countr_zero(blocks), signal, line),
                                  Access::load, line));
    else
      check_global(row.global, inside, Access::load, false, line, alignment);
  }
  for (int block = 0; blocks >> block; ++block) {
    if (!(blocks >> block & 1)) continue;
    char* memory = shared_memory_of(block);
    if (block != here.of_cluster && block_has_ended(block))
      report(str(who(line), " copies to the shared memory of block ", block,
                 " of its cluster, which has ended"));
    const Record record = record_of(Actor::copy, moment_of_barrier(block, signal, line), Access::store, line);
    check_no_barrier(block, offset, bytes, line);
    check_effect(block, offset, bytes, own_clock(), record, "copies to");
    add_arrival(block, signal, {bytes, record, [=] {
                                  for (const Row& row : rows) {
                                    const std::vector<char> copied = bytes_of(map, row);
                                    each_byte(map, offset, row, [&](int64_t byte, int64_t i) {
                                      const bool inside = i >= row.before && i < row.before + row.inside;
                                      memory[byte] =
                                          inside ? copied[static_cast<size_t>(i - row.before)] : char{0};
                                    });
                                  }
                                }});
  }
}

void start_tensor_stores() { stores.clear(); }
void finish_tensor_stores() {
  for (auto& [thread, own] : stores) {
    if (own.open.writes.empty() && own.read == own.committed) {
      for (const Commit& group : own.groups) write(group);
      continue;
    }
    const Record& record = own.open.writes.empty() ? own.groups.back().record : own.open.record;
    report(
        str(line_text(record.line), "the tensor store that thread ", record.thread, " of block ",
            record.block, " of the cluster began ",
            own.open.writes.empty()
                ? "may not have read shared memory when the kernel ends: wait_for_tensor_reads() is missing"
                : "is never committed"));
  }
}

void store_tensor(const void* to, const void* from, const int* at, int rank, int line) {
  const Map map = decode(to, rank, line);
  const int64_t offset = shared_offset(from);
  check_alignment(offset, line);
  Stores& own = stores[running_thread()];
  const Record record = record_of(Actor::tensor_store, {own.reads, own.committed + 1}, Access::load, line);
  check_effect(here.of_cluster, offset, box_bytes(map), own_clock(), record, "stores");
  own.open.record = record;
  const char* memory = shared_memory();
  for (const Row& row : rows_of(map, at)) {
    if (!row.inside) continue;
    check_global(row.global, static_cast<int>(row.inside), Access::store, false, line,
                 static_cast<int>(map.element_bytes));
    Write& write =
        own.open.writes.emplace_back(Write{row.global, std::vector<char>(static_cast<size_t>(row.inside))});
    each_byte(map, offset, row, [&](int64_t byte, int64_t i) {
      if (i >= row.before && i < row.before + row.inside)
        write.bytes[static_cast<size_t>(i - row.before)] = memory[byte];
    });
  }
}
void commit_tensor_stores() {
  Stores& own = stores[running_thread()];
  ++own.committed;
  own.groups.push_back(std::move(own.open));
  own.open = {};
}
void wait_for_tensor_reads(int groups) {
  Stores& own = stores[running_thread()];
  const auto left = static_cast<unsigned>(groups);
  if (own.committed <= left) return;
  own.read = std::max(own.read, own.committed - left);
  own_clock().learn({own.reads, own.read});
}
void wait_for_tensor_stores(int groups) {
  wait_for_tensor_reads(groups);
  for (Stores& own = stores[running_thread()]; static_cast<int>(own.groups.size()) > groups;
       own.groups.pop_front())
    write(own.groups.front());
}

}  // namespace tile::emulator
