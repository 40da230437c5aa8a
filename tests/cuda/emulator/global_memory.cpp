// Checks bounds, alignment, races and constancy of a launch's arrays.
#include <algorithm>
#include <memory>

#include "effects.h"
#include "memory.h"

namespace tile::emulator {
namespace {

struct Byte : TouchedByte {
  int64_t parameter = -1;  // -1: no element
  const char* array = nullptr;
  bool constant = false;         // read as a constant
  std::unique_ptr<Order> order;  // of a cluster whose warpgroups run different code
};
// Arrays that overlap or are adjacent share a region. Pages are allocated on first access, because an array
// with large strides uses few of them.
struct Region {
  Region(uintptr_t begin, uintptr_t end) : begin(begin), end(end) {}
  static constexpr uintptr_t page = 1024;
  uintptr_t begin, end;
  std::vector<std::unique_ptr<Byte[]>> pages;
  Byte& at(uintptr_t address) {
    const uintptr_t place = address - begin;
    auto& bytes = pages[place / page];
    if (!bytes) bytes = std::make_unique<Byte[]>(page);
    return bytes[place % page];
  }
};
std::vector<EmulatedArray> arrays;
std::vector<Region> regions;

uintptr_t number(const void* at) { return reinterpret_cast<uintptr_t>(at); }

// Returns the first byte and the end of an array's elements.
std::pair<uintptr_t, uintptr_t> extent(const EmulatedArray& array) {
  uintptr_t begin = number(array.data), end = begin;
  for (int64_t i = 0; i < array.rank; ++i) {
    if (array.sizes[i] == 0) return {begin, begin};
    const int64_t reach = (array.sizes[i] - 1) * array.strides[i] * array.element_bytes;
    (reach < 0 ? begin : end) += static_cast<uintptr_t>(reach);
  }
  return {begin, end + static_cast<uintptr_t>(array.element_bytes)};
}

template <class Visit>
void each_element(const EmulatedArray& array, int64_t axis, uintptr_t at, const Visit& visit) {
  if (axis == array.rank) return visit(at);
  const int64_t different = array.strides[axis] ? array.sizes[axis] : std::min<int64_t>(array.sizes[axis], 1);
  for (int64_t i = 0; i < different; ++i)
    each_element(array, axis + 1, at + static_cast<uintptr_t>(i * array.strides[axis] * array.element_bytes),
                 visit);
}

Region* find(uintptr_t at) {
  for (Region& region : regions)
    if (at >= region.begin && at < region.end) return &region;
  return nullptr;
}

// Reports an access outside of all arrays and names the nearest array.
[[noreturn]] void outside(uintptr_t at, int bytes, Access access, int line) {
  std::string where = "; the kernel has no array with elements";
  uintptr_t least = ~uintptr_t{0};
  for (const EmulatedArray& array : arrays) {
    const auto [begin, end] = extent(array);
    const uintptr_t last = at + static_cast<uintptr_t>(bytes);
    const uintptr_t distance = at < begin ? begin - at : last > end ? last - end : 0;
    if (begin == end || distance >= least) continue;
    least = distance;
    where = distance == 0
                ? str(" between elements of parameter ", array.parameter)
                : str(" ", distance, at < begin ? " before" : " beyond", " parameter ", array.parameter);
  }
  report(str(deed_text(line, access), " ", bytes, " bytes", where));
}

// `ends`: when what the thread begins has ended; null for its own access.
void touch(uintptr_t at, Byte& byte, Access access, bool constant, int line, const Record* ends = nullptr) {
  const auto deed = [&] {
    return str(deed_text(line, access), " byte ", static_cast<int64_t>(at - number(byte.array)),
               " of parameter ", byte.parameter);
  };
  const Touch &read = byte.reads.last(), &write = byte.writes.last();
  if (constant && write.happened())
    report(str(deed(), " as constant; ", line_text(write.line), "thread ", write.thread, " wrote it"));
  if (byte.constant && !only_reads(access))
    report(str(deed(), "; ", line_text(read.line), "thread ", read.thread, " read it as constant"));
  if (const Touch* other = byte.race(access)) report(deed() + other->text());
  if (here.grouped) {
    if (!byte.order) byte.order = std::make_unique<Order>();
    if (const Record* other = byte.order->race(own_clock(), access)) report(deed() + other->text());
    byte.order->note(own_clock(), ends ? *ends : record_now(access, line));
  }
  byte.note(access, line);
  byte.constant |= constant;
}

}  // namespace

void start_global_memory(std::vector<EmulatedArray> all) {
  forget_releases();
  arrays = std::move(all);
  regions.clear();
  std::vector<std::pair<uintptr_t, uintptr_t>> extents;
  for (const EmulatedArray& array : arrays) extents.push_back(extent(array));
  std::sort(extents.begin(), extents.end());
  for (const auto& [begin, end] : extents) {
    if (begin == end) continue;
    if (regions.empty() || begin > regions.back().end) regions.emplace_back(begin, end);
    regions.back().end = std::max(regions.back().end, end);
  }
  for (Region& region : regions) region.pages.resize((region.end - region.begin) / Region::page + 1);
  for (const EmulatedArray& array : arrays)
    each_element(array, 0, number(array.data), [&](uintptr_t at) {
      Region& region = *find(at);
      for (uintptr_t i = at; i < at + static_cast<uintptr_t>(array.element_bytes); ++i) {
        region.at(i).parameter = array.parameter;
        region.at(i).array = array.data;
      }
    });
}

namespace {

void check(const void* from, int bytes, Access access, bool constant, int line, int alignment,
           const Record* ends) {
  const uintptr_t at = number(from);
  Region* region = find(at);
  if (!region || at + static_cast<uintptr_t>(bytes) > region->end) outside(at, bytes, access, line);
  for (uintptr_t i = at; i < at + static_cast<uintptr_t>(bytes); ++i)
    if (region->at(i).parameter < 0) outside(at, bytes, access, line);
  if (at % static_cast<uintptr_t>(alignment ? alignment : bytes))
    report(str(deed_text(line, access), " ", bytes, " bytes of parameter ", region->at(at).parameter,
               " at a multiple of ", at & (~at + 1), " only"));
  for (uintptr_t i = at; i < at + static_cast<uintptr_t>(bytes); ++i)
    touch(i, region->at(i), access, constant, line, ends);
}

}  // namespace

void check_global(const void* from, int bytes, Access access, bool constant, int line, int alignment) {
  check(from, bytes, access, constant, line, alignment, nullptr);
}
void check_global_read(const void* from, int bytes, int alignment, const Record& ends) {
  check(from, bytes, Access::load, false, ends.line, alignment, &ends);
}

void check_global_word(const void* from, Access access, int line) {
  const uintptr_t at = number(from);
  bool any = false;
  for (uintptr_t i = at; i < at + 4; ++i) {
    Region* region = find(i);
    if (!region || region->at(i).parameter < 0) continue;
    touch(i, region->at(i), access, false, line);
    any = true;
  }
  if (!any) outside(at, 4, access, line);
}

}  // namespace tile::emulator
