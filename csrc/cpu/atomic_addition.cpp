// Dtypes of 16 bits have no atomic of their own: a lock an address does for all.
#include "cpu/atomic_addition.h"

#include <mutex>

#include "cpu/frame.h"

namespace tile::cpu {

AtomicAddition::AtomicAddition(DType dtype)
    : dtype_(dtype), add_(find_elementwise("add", lane_of(dtype))->variants[0]) {}

void AtomicAddition::operator()(char* address, const char* lane) const {
  static std::mutex locks[64];
  const MoveRow& move = move_row(dtype_);
  const int64_t element = lane_bytes(lane_of(dtype_)), bytes = info(dtype_).bytes;
  std::lock_guard lock(locks[reinterpret_cast<uintptr_t>(address) / 64 % 64]);
  Scalar old, sum;
  move.load(address, 0, bytes, old.bytes, element, 1, 1);
  add_({1, 1, sum.bytes, 0, {old.bytes, lane}, {0, 0}});
  move.store(address, 0, bytes, sum.bytes, element, 1, 1);
}

}  // namespace tile::cpu
