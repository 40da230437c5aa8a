// Counts the bytes that a case asks for.
#include "memory.h"

#include <cstdio>
#include <cstdlib>
#include <new>

namespace fuzz {
namespace {
size_t limit = 0, used = 0;
}  // namespace

void limit_memory(size_t bytes) {
  limit = bytes;
  used = 0;
}

}  // namespace fuzz

#ifndef __SANITIZE_ADDRESS__  // which brings its own
void* operator new(size_t bytes) {
  using namespace fuzz;
  if (limit && (bytes > limit || (used += bytes) > limit)) {
    limit = 0;
    std::fprintf(stderr, "asks for more than %zu bytes\n", used + bytes);
    std::abort();
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
