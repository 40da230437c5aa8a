// How many threads torch gives a launch on a CPU.
#pragma once

namespace tile {

int launch_threads();  // 1 inside of another parallel region

}  // namespace tile
