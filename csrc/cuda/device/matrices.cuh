// Loads tensor-core fragments from tiles in shared memory, for elements of any width, with k along the tile's
// rows or across them.
//
// A thread has 4 words of a fragment. Of the left operand (16 rows of the product) it has word lane % 4 of
// rows lane / 4 and lane / 4 + 8, then word lane % 4 + 4 of both. Of the right operand (two blocks of 8
// columns) it has words lane % 4 and lane % 4 + 4 of a column of the first block, then of the second.
#pragma once
#include "cuda/device/shared_tile.cuh"
#include "cuda/device/tensor_cores.cuh"

namespace tile {

// Addresses at constant distances from the lane's own. Rows are at constant distances; for columns all but
// the permutation of chunks is constant. A warp starts at a multiple of `own` columns and reads that many.
// `separate` means that no distance shares a permuted bit with the warp's start.
template <class S, int own>
struct Addresses {
  static constexpr int exchange = (S::swizzle - 1) * 16;
  static constexpr bool separate =
      S::swizzle == 1 || own % (S::swizzle * S::chunk) == 0 || (own & (own - 1)) == 0;
  S tile;
  int row, column;
  SharedAddress first;
  TILE Addresses(const S& tile, int row, int column)
      : tile(tile), row(row), column(column), first(shared_address(tile.address(row, column / S::chunk))) {
    first += inside();
  }
  // The offset within a 16-byte chunk whose words are read one by one.
  TILE int inside() const {
    constexpr int bytes = sizeof(typename S::Element);
    return bytes >= 4 ? column % S::chunk * bytes : 0;
  }
  TILE SharedAddress at(int down, int right) const {
    const int bytes = right * 16 / S::chunk;
    if (!separate) {
      // The sum may carry: compute an address for each distance within the permutation, and add constants to
      // it.
      const int near = right % (S::swizzle * S::chunk);
      const SharedAddress address = shared_address(tile.address(row, (column + near) / S::chunk)) + inside();
      return (address ^ (SharedAddress)(S::exchange(down) * 16)) +
             ((bytes & ~exchange) + down * S::chunks * 16);
    }
    return (first ^ (SharedAddress)((bytes & exchange) ^ S::exchange(down) * 16)) +
           ((bytes & ~exchange) + down * S::chunks * 16);
  }
};

// The way in which words are read. ldmatrix gives a lane 4 adjacent bytes of a row, as needed if k runs along
// rows. It can also transpose 16-bit matrices. Read in this way, pairs of bytes form 2 x 2 blocks, and two
// such words are rearranged into two words along k.
enum class Reading { matrices, transposed_matrices, bytes, words };
template <class S, bool along>
constexpr Reading reading = sizeof(typename S::Element) == 8   ? Reading::words
                            : along                            ? Reading::matrices
                            : sizeof(typename S::Element) == 4 ? Reading::words
                            : sizeof(typename S::Element) == 2 ? Reading::transposed_matrices
                                                               : Reading::bytes;

// The lane's addresses. `along` means that k runs along the tile's rows; `right` selects the right operand's
// order of words; `own` is a warp's extent of the other axis.
template <class S, int own, int k, bool along, bool right>
struct Matrices {
  static constexpr Reading how = reading<S, along>;
  static constexpr int chunk = S::chunk, second = own % 16 == 0 ? 8 : 0;  // a single block is its own
  Addresses<S, along ? k : own> addresses;

  // The lane's start, for a warp that starts at `begin` on the other axis. For ldmatrix lanes 0 to 7 address
  // the rows of the first matrix of 8 x 8 words, lanes 8 to 15 those of the second, and so on. For bytes
  // these are rows 4 i and 4 i + 1 of 16, then 4 i + 2 and 4 i + 3, then those of the next 16. (Separate
  // functions cost instructions in a loop.)
  TILE Matrices(const S& tile, int begin)
      : addresses(tile,
               how == Reading::words ? along ? begin + lane() / 4 : lane() % 4
               : how == Reading::bytes
                   ? lane() % 8 / 2 * 4 + lane() % 2 + lane() / 8 % 2 * 2 + lane() / 16 * 16
               : along ? begin + (right ? lane() % 8 + lane() / 16 * second : lane() % 16)
               : right ? lane() % 16
                       : lane() % 8 + lane() / 16 * 8,
               how == Reading::words   ? along ? lane() % 4 : begin + lane() / 4
               : how == Reading::bytes ? begin
               : along                 ? (right ? lane() / 8 % 2 : lane() / 16) * chunk
                                       : begin + (right ? lane() / 16 * second : lane() / 8 % 2 * 8)) {}
  TILE SharedAddress at(int other, int step) const {
    return along ? addresses.at(other, step) : addresses.at(step, other);
  }

  template <class Word>
  TILE void load(Word (&to)[4], int other, int step, int line) const {
    if constexpr (how == Reading::words) {
      TILE_UNROLL
      for (int i = 0; i < 4; ++i)
        load_word(to[i], at(other + (right ? i / 2 * second : i % 2 * 8), step + (right ? i % 2 : i / 2) * 4),
                  line);
    } else {
      load_matrices<how != Reading::matrices>(to, at(other, step), line);
    }
    if constexpr (how == Reading::bytes) {
      const u32 low0 = every_second_byte<false>(to[0], to[1]), high0 = every_second_byte<true>(to[0], to[1]),
                low1 = every_second_byte<false>(to[2], to[3]), high1 = every_second_byte<true>(to[2], to[3]);
      to[0] = low0;
      to[1] = right ? low1 : high0;
      to[2] = right ? high0 : low1;
      to[3] = high1;
    }
    // float32 elements are multiplied as tf32.
    if constexpr (Same<typename S::Element, f32>::value) {
      TILE_UNROLL
      for (int i = 0; i < 4; ++i) to[i] = bits_of_tf32(to[i]);
    }
  }
};

}  // namespace tile
