// Declares the test for a handler that would catch an error. While a library is being loaded there is none,
// and a throw would end the process.
#pragma once

namespace tile {

// Returns true if an Error thrown by the caller would reach a handler before the end of the stack and before
// the frames of the dynamic loader, which no exception may cross. Walks the stack, so call it on errors only.
bool error_is_caught();

}  // namespace tile
