// Whether an error has anybody to catch it: while a library is loaded nobody does, and the process would end.
#pragma once

namespace tile {

// True where an Error that is thrown by the caller reaches a handler before the frames of the dynamic loader,
// which no exception may cross, and the end of the stack. Walks the stack: for what is an error anyway.
bool error_is_caught();

}  // namespace tile
