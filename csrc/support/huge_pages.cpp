// Implements the request for huge pages with madvise, on systems that have it.
#include "support/huge_pages.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tile {

void ask_for_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  // Only pages that are fully inside: a huge page that reaches beyond would use memory that was not
  // requested.
  constexpr std::uintptr_t page = std::uintptr_t{2} << 20;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace tile
