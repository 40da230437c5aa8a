// Fragments of the tensor cores from tiles in shared memory, of elements of any width, k along the tile's
// rows or across them.
//
// A fragment has 4 words of a thread. Of the left operand (16 rows of the product) they are words lane % 4 of
// rows lane / 4 and lane / 4 + 8, then words lane % 4 + 4 of both; of the right one (two blocks of 8 columns)
// words lane % 4 and lane % 4 + 4 of a column of the first block, then of the second.
#pragma once
#include "cuda/device/shared_tile.cuh"
#include "cuda/device/tensor_cores.cuh"

namespace tile {

// Addresses at constant distances from the lane's own: the rows lie so, and of the columns only the exchange
// of chunks is not a constant. A warp begins at a multiple of `own` columns, of which it reads that many.
// separate: no distance shares a bit of the exchange with where the warp begins.
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
  // The offset of words of 16-byte chunks that are read one by one.
  TILE int inside() const {
    constexpr int bytes = sizeof(typename S::Element);
    return bytes >= 4 ? column % S::chunk * bytes : 0;
  }
  TILE SharedAddress at(int down, int right) const {
    const int bytes = right * 16 / S::chunk;
    if (!separate) {
      // The sum may carry: an address for each distance within the exchange, and constants from there.
      const int near = right % (S::swizzle * S::chunk);
      const SharedAddress address = shared_address(tile.address(row, (column + near) / S::chunk)) + inside();
      return (address ^ (SharedAddress)(S::exchange(down) * 16)) + ((bytes & ~exchange) + down * S::chunks * 16);
    }
    return (first ^ (SharedAddress)((bytes & exchange) ^ S::exchange(down) * 16)) +
           ((bytes & ~exchange) + down * S::chunks * 16);
  }
};

// How words are read. ldmatrix gives a lane 4 bytes in a row: so it is where k runs along rows. Of matrices
// of 16 bits it exchanges the axes; so read, pairs of bytes are 2 x 2, and two such words make two of k.
enum class Reading { matrices, transposed_matrices, bytes, words };
template <class S, bool along>
constexpr Reading reading = sizeof(typename S::Element) == 8   ? Reading::words
                            : along                            ? Reading::matrices
                            : sizeof(typename S::Element) == 4 ? Reading::words
                            : sizeof(typename S::Element) == 2 ? Reading::transposed_matrices
                                                               : Reading::bytes;

// Addresses of the lane. `along`: k runs along the tile's rows; right: the right operand's order of words; own:
// of the other axis, a warp's.
template <class S, int own, int k, bool along, bool right>
struct Matrices {
  static constexpr Reading how = reading<S, along>;
  static constexpr int chunk = S::chunk, second = own % 16 == 0 ? 8 : 0;  // of one block alone: itself
  Addresses<S, along ? k : own> addresses;

  // Where the lane begins, for a warp that does at `begin` on the other axis. To ldmatrix lanes 0 to 7 give
  // the rows of the first 8 x 8 words, 8 to 15 those of the second, and so on; of bytes these are rows 4 i
  // and 4 i + 1 of 16, then 4 i + 2 and 4 i + 3, then of the next 16. (Functions of their own cost
  // instructions in a loop.)
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
    // float32 is here to be multiplied as tf32.
    if constexpr (Same<typename S::Element, f32>::value) {
      TILE_UNROLL
      for (int i = 0; i < 4; ++i) to[i] = bits_of_tf32(to[i]);
    }
  }
};

}  // namespace tile
