// The threads of a block.
#pragma once

namespace tile::emulator {

// Runs body() once for each thread of the block that `here` names; a Report rises where they cannot go on.
void run_block(int threads, void (*body)());

}  // namespace tile::emulator
