// Resolves tile addresses.
#include "cpu/interpreter/address.h"

#include <algorithm>

namespace tile::cpu {

int64_t integer(const Frame& frame, ScalarSlot slot) {
  const Scalar& s = frame.scalars[static_cast<size_t>(slot.id)];
  switch (lane_bytes(slot.lane)) {  // by width and sign
    case 8:
      return s.i;
    case 4:
      return slot.lane == Lane::u32 ? static_cast<int64_t>(static_cast<uint32_t>(s.u))
                                    : static_cast<int32_t>(s.u);
    case 2:
      return slot.lane == Lane::u16 ? static_cast<int64_t>(static_cast<uint16_t>(s.u))
                                    : static_cast<int16_t>(s.u);
    default:
      return slot.lane == Lane::u8 ? static_cast<int64_t>(static_cast<uint8_t>(s.u))
                                   : static_cast<int8_t>(s.u);
  }
}

TileRef TileAddress::resolve(const Frame& frame) const {
  const ArrayRef& from = frame.arrays[static_cast<size_t>(array)];
  TileRef tile;
  tile.dtype = from.dtype;
  tile.lanes = stored_as_lane(from.dtype);
  tile.pad = pad;
  tile.streams = from.streams;
  tile.data = from.data;
  tile.rank = static_cast<int>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t start = integer(frame, index[i]) * steps[i];
    int64_t left = from.size[i] - start;
    tile.data += start * from.stride[i];
    tile.axes[i].stride = from.stride[i];
    tile.axes[i].first = std::max<int64_t>(from.first[i] - start, 0);
    tile.axes[i].valid = left >= shape[i] ? unlimited : std::max<int64_t>(left, 0);
    tile.axes[i].extent = left >= shape[i] ? shape[i] : std::max<int64_t>(left, 0) + 1;
    // With padding in front the tile needs all its elements, since its last one does not represent that
    // padding.
    if (tile.axes[i].first > 0)
      tile.axes[i].extent = shape[i], tile.axes[i].valid = std::min(std::max<int64_t>(left, 0), shape[i]);
  }
  return tile;
}

}  // namespace tile::cpu
