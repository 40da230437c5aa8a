// Calls a kernel with the parameters of a launch, which are pointers.
#pragma once
#include <utility>

namespace tile::emulator {

template <class... P, size_t... i>
void call_with(void (*kernel)(P...), void** arguments, std::index_sequence<i...>) {
  kernel(*static_cast<P*>(arguments[i])...);
}
template <class... P>
void call(void (*kernel)(P...), void** arguments) {
  call_with(kernel, arguments, std::index_sequence_for<P...>());
}

}  // namespace tile::emulator
