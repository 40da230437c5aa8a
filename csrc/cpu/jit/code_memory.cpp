// Allocates pages with mmap, one mapping per piece of code: other threads may be running code on a shared
// page.
#include "cpu/jit/code_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace tile::cpu::jit {

std::unique_ptr<CodeMemory> CodeMemory::make(const std::vector<uint8_t>& data,
                                             const std::vector<uint8_t>& code) {
  constexpr size_t page = 4096, line = 64;
  const size_t start = (data.size() + line - 1) / line * line;
  const size_t bytes = (start + code.size() + page - 1) / page * page;
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::unique_ptr<CodeMemory> memory(new CodeMemory);
  memory->pages_ = pages;
  memory->bytes_ = bytes;
  uint8_t* to = static_cast<uint8_t*>(pages) + start;
  std::memcpy(to - data.size(), data.data(), data.size());
  std::memcpy(to, code.data(), code.size());
  if (mprotect(pages, bytes, PROT_READ | PROT_EXEC) != 0) return nullptr;
  memory->code_ = to;
  memory->code_bytes_ = code.size();
  return memory;
}

CodeMemory::~CodeMemory() { munmap(pages_, bytes_); }

}  // namespace tile::cpu::jit
