// Bounds, alignment, bytes nobody wrote, and races of shared memory.
#include "memory.h"

namespace tile::emulator {
namespace {

alignas(1024) char memory[256 * 1024];
struct Byte : TouchedByte {
  int copies = 0;  // under way to it
};
std::vector<Byte> touched;

}  // namespace

char* shared_memory() { return memory; }

void start_shared_memory(int bytes) {
  if (bytes > static_cast<int>(sizeof memory))
    report(str("the launch asks for ", bytes, " bytes of shared memory, and no GPU has more than ",
               sizeof memory));
  touched.assign(static_cast<size_t>(bytes), {});
}

void check_shared(const void* at, int bytes, Access access, int line) {
  const int64_t offset = static_cast<const char*>(at) - memory;
  const auto deed = [&] {
    return str(deed_text(line, access), " ", bytes, " bytes at ", offset, " of shared memory");
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
    if (access != Access::store && !byte.writes.last().happened())
      report(str(deed(), ", and nobody wrote byte ", i));
    if (const Touch* other = byte.race(access)) report(deed() + other->text());
    touched[static_cast<size_t>(i)].note(access, line);
  }
}

void begin_copy(const void* at, int bytes, int line) {
  check_shared(at, bytes, Access::store, line);
  for (int64_t i = static_cast<const char*>(at) - memory, end = i + bytes; i < end; ++i)
    ++touched[static_cast<size_t>(i)].copies;
}
void end_copy(const void* at, int bytes, int line) {
  for (int64_t i = static_cast<const char*>(at) - memory, end = i + bytes; i < end; ++i) {
    Byte& byte = touched[static_cast<size_t>(i)];
    --byte.copies;
    byte.note(Access::store, line);
  }
}

}  // namespace tile::emulator
