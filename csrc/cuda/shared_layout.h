// The layout of a tile in shared memory: rows of 16-byte chunks, permuted within a row by the row number, so
// that reading 8 rows at once causes no bank conflicts.
//
// A row may be divided into consecutive panels: the copy unit (TMA) and wgmma take rows of at most 128 bytes.
// This describes the layout for cp.async and ldmatrix (one panel, device/shared_tile.cuh), the layout that
// TMA writes, and the layout that wgmma descriptors read.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

// The function of the row number that permutes chunks: that of TMA, or, for 1, 4 and 8 bytes, one for tensor
// cores that read across rows (device/shared_tile.cuh).
enum class Exchange : uint8_t { rows, fragments };

// The axis of the tile whose elements are adjacent in memory.
enum class Major : uint8_t { rows, columns };

struct SharedLayout {
  static constexpr int chunk_bytes = 16, line_bytes = 128;  // a line covers all banks

  int64_t rows = 0, width = 0;  // in memory: rows of `width` adjacent elements
  int element_bytes = 2;
  Major major = Major::columns;  // columns: the tile's rows are rows in memory
  int swizzle = 0;               // bytes within which chunks are permuted: 0, 32, 64 or 128
  int64_t panel = 0;             // adjacent elements of a row
  int64_t pitch = 0;             // bytes from row to row of a panel
  int stages = 1;                // consecutive tiles
  Exchange exchange = Exchange::rows;

  int64_t panels() const { return (width + panel - 1) / panel; }
  int64_t panel_bytes() const { return rows * pitch; }
  int64_t stage_bytes() const { return panels() * panel_bytes(); }
  int64_t bytes() const { return stages * stage_bytes(); }
  // Returns the offset of an element of the tile, in bytes from the first stage.
  int64_t offset(int64_t row, int64_t column, int stage = 0) const;
  // The same for an element given by its row and position in memory.
  int64_t offset_of(int64_t row, int64_t at, int stage = 0) const;
  // Chunk c of a row is stored at c ^ exchange_of(row).
  int64_t exchange_of(int64_t row) const;

  // Returns the swizzle in bytes (0: none) with which TMA writes a box of `panel` elements and `rows` rows to
  // the same addresses, one box per panel; none if it cannot. The memory must be aligned to 1024 bytes.
  std::optional<int> tma_swizzle() const;

  // The fields of a wgmma descriptor except the address (PTX ISA, matrix descriptor).
  struct Descriptor {
    int64_t leading, stride;  // byte offsets
    int mode;                 // 0: no swizzle, 1: 128 bytes, 2: 64, 3: 32
    bool operator==(const Descriptor&) const = default;
  };
  // `k_major` means that elements are adjacent along k. Returns none if wgmma cannot read the layout.
  std::optional<Descriptor> wgmma_descriptor(bool k_major) const;

  bool operator==(const SharedLayout&) const = default;
};

// Returns consecutive whole rows for ldmatrix; the width is any multiple of a chunk. Chunks are permuted
// within groups, whose size is the largest power of two that divides the number of chunks of a row: that many
// of 8 rows begin on the same bank. With an odd number of chunks, rows begin on different banks and nothing
// is permuted.
SharedLayout whole_rows(int64_t rows, int64_t width, int element_bytes, Major major = Major::columns,
                        int stages = 1);
// Returns panels of `swizzle` bytes a row (0: one chunk), for TMA and wgmma.
SharedLayout in_panels(int64_t rows, int64_t width, int element_bytes, int swizzle,
                       Major major = Major::columns, int stages = 1);

// Returns how many shared-memory passes a warp's access takes. `offsets` has each lane's byte offset,
// negative for an inactive lane; each lane accesses `bytes` bytes, up to 16. Lanes that request the same word
// share it. Accesses of 8 and 16 bytes serve half and a quarter of the warp at once.
int shared_passes(const std::vector<int64_t>& offsets, int bytes);
// Returns the minimum number of passes for so many bytes.
int least_passes(const std::vector<int64_t>& offsets, int bytes);

}  // namespace tile::cuda
