// What went wrong in a launch, and who did it.
#pragma once
#include <stdexcept>
#include <string>

#include "machine.h"
#include "support/text.h"

namespace tile::emulator {

struct Report : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Ends the launch, from a thread of the kernel too: the exception rises where the launch began.
[[noreturn]] void report(const std::string& text);

inline std::string line_text(int line) { return line ? str("line ", line, ": ") : std::string(); }
// Of the block that runs.
inline std::string block_text() {
  return str("block (", here.block[0], ", ", here.block[1], ", ", here.block[2], ")");
}
// "line 7: thread 3 of block (0, 0, 0) reads".
inline std::string deed_text(int line, Access access) {
  return str(line_text(line), "thread ", here.thread, " of ", block_text(),
             only_reads(access)        ? " reads"
             : access == Access::store ? " writes"
                                       : " changes");
}

}  // namespace tile::emulator
