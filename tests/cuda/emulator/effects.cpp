// Begins and ends what runs concurrently with the threads of a cluster.
#include "effects.h"

namespace tile::emulator {

void start_effects() {
  start_shared_order();
  start_barriers();
  start_registers();
  start_tensor_stores();
  start_products();
}
void finish_effects() {
  finish_barriers();
  finish_tensor_stores();
}

}  // namespace tile::emulator
