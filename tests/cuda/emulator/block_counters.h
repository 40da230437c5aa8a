// Begins a launch, whose counter of blocks is 0, and ends one, which must leave it at 0.
#pragma once

namespace tile::emulator {

void start_block_counter();
void check_block_counter();

}  // namespace tile::emulator
