// The threads of a cluster's blocks; most launches have clusters of one.
#pragma once

namespace tile::emulator {

// Runs body() once for each thread of so many blocks along the first axis, of which `here` names the first.
// Throws a Report if they deadlock.
void run_cluster(int blocks, int threads, void (*body)());
bool block_has_ended(int of_cluster);

}  // namespace tile::emulator
