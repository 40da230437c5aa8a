// Where a tile lies in shared memory: rows of 16-byte chunks, which are exchanged within a row by the row's
// number, so that what reads 8 rows at once meets no bank twice.
//
// A row may be cut into panels, which stand behind one another: the copy unit (TMA) and wgmma take rows of at
// most 128 bytes. This describes what cp.async and ldmatrix use (one panel, device/shared_tile.cuh), what TMA
// writes, and what the descriptors of wgmma read.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

// By what of a row's number chunks are exchanged: as TMA does, or, of 1, 4 and 8 bytes, as tensor cores read
// them across rows (device/shared_tile.cuh).
enum class Exchange : uint8_t { rows, fragments };

// The axis of the tile along which neighbours are neighbours in memory.
enum class Major : uint8_t { rows, columns };

struct SharedLayout {
  static constexpr int chunk_bytes = 16, line_bytes = 128;  // of all banks

  int64_t rows = 0, width = 0;  // as they lie in memory: of `width` neighbours
  int element_bytes = 2;
  Major major = Major::columns;  // columns: the tile's rows are rows here
  int swizzle = 0;               // bytes in which chunks are exchanged: 0, 32, 64 or 128
  int64_t panel = 0;             // elements of a row that stand together
  int64_t pitch = 0;             // bytes from row to row of a panel
  int stages = 1;                // tiles behind one another
  Exchange exchange = Exchange::rows;

  int64_t panels() const { return (width + panel - 1) / panel; }
  int64_t panel_bytes() const { return rows * pitch; }
  int64_t stage_bytes() const { return panels() * panel_bytes(); }
  int64_t bytes() const { return stages * stage_bytes(); }
  // Returns the offset of an element of the tile, in bytes from the first stage.
  int64_t offset(int64_t row, int64_t column, int stage = 0) const;
  // The same of an element of its rows in memory.
  int64_t offset_of(int64_t row, int64_t at, int stage = 0) const;
  // Chunk c of a row stands at c ^ this.
  int64_t exchange_of(int64_t row) const;

  // Bytes of the swizzle (0: none) with which TMA writes a box of `panel` elements and `rows` rows to the
  // same addresses, one box a panel; none where it cannot. Memory begins at a multiple of 1024 bytes.
  std::optional<int> tma_swizzle() const;

  // Fields of a wgmma descriptor besides the address (PTX ISA, matrix descriptor).
  struct Descriptor {
    int64_t leading, stride;  // byte offsets
    int mode;                 // 0: no swizzle, 1: 128 bytes, 2: 64, 3: 32
    bool operator==(const Descriptor&) const = default;
  };
  // k_major: neighbours in memory are those of the axis that is summed over. None where wgmma cannot read it.
  std::optional<Descriptor> wgmma_descriptor(bool k_major) const;

  bool operator==(const SharedLayout&) const = default;
};

// Whole rows behind one another, for ldmatrix: any width that is a multiple of a chunk. What of 8 rows'
// beginnings fall on one bank decides how far chunks are exchanged: within the greatest power of two that
// divides a row's chunks. Of an odd number rows begin on banks of their own, and nothing is exchanged.
SharedLayout whole_rows(int64_t rows, int64_t width, int element_bytes, Major major = Major::columns,
                        int stages = 1);
// Panels of `swizzle` bytes a row (0: of one chunk), for TMA and wgmma.
SharedLayout in_panels(int64_t rows, int64_t width, int element_bytes, int swizzle,
                       Major major = Major::columns, int stages = 1);

// Times that shared memory is asked until a warp has its words: `offset` of each lane in bytes, negative
// where it wants none; each takes `bytes`, up to 16. Lanes that want one word share it. Of accesses of 8 and
// 16 bytes half and a quarter of the warp are served at once.
int shared_passes(const std::vector<int64_t>& offsets, int bytes);
// The least that so many bytes can take.
int least_passes(const std::vector<int64_t>& offsets, int bytes);

}  // namespace tile::cuda
