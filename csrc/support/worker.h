// Declares the start of the library's own threads.
#pragma once
#include <functional>
#include <thread>

namespace tile {

// Starts a thread that blocks all signals, so that no handler of the program runs on it. Returns a thread
// that is not joinable if the system cannot start one.
std::thread start_worker(std::function<void()> work);

}  // namespace tile
