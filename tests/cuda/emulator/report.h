// Reports of errors in a launch, and the thread that caused them.
#pragma once
#include <stdexcept>
#include <string>

#include "machine.h"
#include "support/text.h"

namespace tile::emulator {

struct Report : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Ends the launch, also from a thread of the kernel: the exception propagates to the function that started
// the launch.
[[noreturn]] void report(const std::string& text);

inline std::string line_text(int line) { return line ? str("line ", line, ": ") : std::string(); }
// Names the running block.
inline std::string block_text() {
  return str("block (", here.block[0], ", ", here.block[1], ", ", here.block[2], ")");
}
// Returns "line 7: thread 3 of block (0, 0, 0) reads".
inline std::string deed_text(int line, Access access) {
  return str(line_text(line), "thread ", here.thread, " of ", block_text(),
             only_reads(access)        ? " reads"
             : access == Access::store ? " writes"
                                       : " changes");
}

}  // namespace tile::emulator
