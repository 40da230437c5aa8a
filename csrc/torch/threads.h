// The number of threads that torch gives a launch on a CPU.
#pragma once

namespace tile {

int launch_threads();  // 1 inside another parallel region

}  // namespace tile
