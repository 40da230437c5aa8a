// wgmma: products of a warpgroup, which run until they are awaited. Their operands are read by descriptors
// (PTX ISA, matrix descriptor and canonical layouts), which is written from that text and not from
// SharedLayout.
#include <cmath>
#include <cstring>
#include <map>

#include "asynchronous.h"
#include "block.h"
#include "effects.h"
#include "floats.h"
#include "report.h"

namespace tile::emulator {
namespace {

constexpr int threads = 128, chunk = 16, step_bytes = 32, block_rows = 64;
// The sums of a product in flight are marked: a float is a signaling NaN that arithmetic makes quiet.
constexpr unsigned float_mark = 0x7f800000, integer_mark = 0x5a800000, number_bits = 0x3fffff,
                   quiet = 0x400000;
constexpr unsigned most_numbers = number_bits - 1, kept = 256;

struct Sums {
  unsigned batch;
  int line;
  bool integers;
  int added_at = 0;  // the line of the product that has added to them since
  std::vector<unsigned> of[threads];
};
struct Batches {
  Agent agent = new_agent();
  unsigned begun = 0;
};
std::map<size_t, Batches> batches;   // by the group's number in the cluster
std::map<unsigned, Sums> in_flight;  // by number
unsigned last_number = 0;

size_t group_of(size_t thread) { return thread / threads; }
Batches& own_batches() { return batches[group_of(running_thread())]; }
std::string who(int line) { return str(line_text(line), "thread ", here.thread, " of ", block_text()); }

// Tells where an operand's elements lie in shared memory. `along` counts rows of the left operand or columns
// of the right one.
struct Matrix {
  int64_t start, leading, stride;
  int swizzle;  // bytes
  bool k_major;
  int element_bytes;

  Matrix(unsigned long long descriptor, bool k_major, int element_bytes, int line)
      : start(static_cast<int64_t>(descriptor & 0x3fff) * 16),
        leading(static_cast<int64_t>(descriptor >> 16 & 0x3fff) * 16),
        stride(static_cast<int64_t>(descriptor >> 32 & 0x3fff) * 16),
        swizzle(descriptor >> 62 == 1   ? 128
                : descriptor >> 62 == 2 ? 64
                : descriptor >> 62 == 3 ? 32
                                        : 0),
        k_major(k_major),
        element_bytes(element_bytes) {
    if (descriptor >> 49 & 7) report(str(who(line), " multiplies by a descriptor with a base offset"));
    if (!k_major && element_bytes != 2)
      report(str(who(line), " multiplies an operand of ", element_bytes,
                 "-byte elements that is not contiguous along k"));
  }
  // Returns the address of the 16 bytes that begin with an element. They are adjacent along the contiguous
  // axis.
  int64_t chunk_at(int64_t along, int64_t k) const {
    const int64_t elements = chunk / element_bytes;
    int64_t offset;
    if (k_major) {
      // 8 rows of 16 bytes, or of a swizzle's width, lie together; `stride` leads to the next 8.
      const int64_t pitch = swizzle ? swizzle : chunk;
      offset = along / 8 * stride + along % 8 * pitch + k / elements * (swizzle ? chunk : leading);
    } else if (swizzle) {
      // Rows of k have a swizzle's width; `stride` leads to the next 8 of them, `leading` to the next
      // elements.
      const int64_t chunks = swizzle / chunk, at = along / elements;
      offset = at % chunks * chunk + at / chunks * leading + k % 8 * swizzle + k / 8 * stride;
    } else {
      offset = along / elements * stride + k % 8 * chunk + k / 8 * leading;
    }
    const int64_t address = start + offset, mask = swizzle ? swizzle / chunk - 1 : 0;
    return address ^ ((address >> 7 & mask) << 4);
  }
};

// Reads `extent` x 32 bytes along k; to[along * depth + k].
void read_matrix(const Matrix& matrix, int extent, double (*value)(const void*), const Clock& known,
                 const Record& record, double* to) {
  const int elements = chunk / matrix.element_bytes, depth = step_bytes / matrix.element_bytes;
  const char* memory = shared_memory();
  const int along_step = matrix.k_major ? 1 : elements, k_step = matrix.k_major ? elements : 1;
  for (int along = 0; along < extent; along += along_step)
    for (int k = 0; k < depth; k += k_step) {
      const int64_t at = matrix.chunk_at(along, k);
      check_effect(here.of_cluster, at, chunk, known, record, "multiplies");
      for (int i = 0; i < elements; ++i)
        to[(along + (matrix.k_major ? 0 : i)) * depth + k + (matrix.k_major ? i : 0)] =
            value(memory + at + i * matrix.element_bytes);
    }
}
// Reads the left operand from the registers of the group: rows lane / 4 and 8 further, bytes lane % 4 * 4,
// then both rows 16 bytes further.
void read_registers(void** all, int step_of_block, double* to) {
  const Product& first = *static_cast<Product*>(all[0]);
  const int each = 4 / first.element_bytes, depth = step_bytes / first.element_bytes;
  for (int t = 0; t < threads; ++t) {
    const Product& own = *static_cast<Product*>(all[t]);
    for (int word = 0; word < 4; ++word)
      for (int i = 0; i < each; ++i) {
        const int row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8, k = (t % 4 + word / 2 * 4) * each + i;
        const char* words = reinterpret_cast<const char*>(own.left_words + step_of_block * 4 + word);
        to[row * depth + k] = own.left(words + i * own.element_bytes);
      }
  }
}

// The unit reads shared memory when each of the group's warps has come, so it knows what all of them know.
Clock known_to_all(size_t first) {
  Clock all;
  for (int warp = 0; warp < threads / 32; ++warp) {
    Clock of_warp;
    for (size_t i = 0; i < 32; ++i) of_warp.join(clock_of(first + static_cast<size_t>(warp) * 32 + i));
    if (warp)
      all.meet(of_warp);
    else
      all = of_warp;
  }
  return all;
}

Sums* marked(unsigned bits, unsigned mark) {
  if ((bits & ~number_bits) != mark) return nullptr;
  const auto found = in_flight.find(bits & number_bits);
  return found == in_flight.end() ? nullptr : &found->second;
}
// Returns the sum behind a register, and in `from` those of the product that it belongs to if it is marked.
unsigned sum_behind(unsigned bits, int thread, int place, bool integers, Sums*& from, int line) {
  from = marked(bits, integers ? integer_mark : float_mark);
  if (!from) {
    if (!integers) check_sum(bits, line);
    return bits;
  }
  if (from->added_at)
    report(str(who(line), " has the sums of the product of line ", from->line,
               " in its registers, to which that of line ", from->added_at, " has added since"));
  const std::vector<unsigned>& own = from->of[thread];
  if (place >= static_cast<int>(own.size()))
    report(str(who(line), " has fewer sums of the product of line ", from->line, " than registers"));
  return own[static_cast<size_t>(place)];
}

void multiply(void** all, int line, Sums& results) {
  const Product& product = *static_cast<Product*>(all[0]);
  const size_t first = running_thread();
  const Clock known = known_to_all(first);
  Batches& own = own_batches();
  const Record record = record_of(Actor::product, {own.agent, own.begun}, Access::load, line);
  const int depth = step_bytes / product.element_bytes, columns = product.columns, a_block = columns / 2;
  std::vector<double> left(static_cast<size_t>(block_rows * depth)),
      right(static_cast<size_t>(columns * depth));
  for (int k = 0; k < product.steps; ++k) {
    const auto offset = [](int bytes) { return static_cast<unsigned long long>(bytes / chunk); };
    read_matrix(Matrix(product.right_at + offset(product.right_step(k)), product.right_k_major,
                       product.element_bytes, line),
                columns, product.right, known, record, right.data());
    for (int i = 0; i < product.rows; ++i) {
      if (k < product.held)
        read_registers(all, i * product.held + k, left.data());
      else
        read_matrix(Matrix(product.left_at + offset(product.left_block(i) + product.left_step(k)),
                           product.left_k_major, product.element_bytes, line),
                    block_rows, product.left, known, record, left.data());
      for (int t = 0; t < threads; ++t)
        for (int r = 0; r < a_block; ++r) {
          const int row = t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + t % 4 * 2 + r % 2;
          unsigned& to = results.of[t][static_cast<size_t>(i * a_block + r)];
          double sum = 0;
          for (int j = 0; j < depth; ++j)
            sum +=
                left[static_cast<size_t>(row * depth + j)] * right[static_cast<size_t>(column * depth + j)];
          if (product.integers)
            to += static_cast<unsigned>(static_cast<long long>(sum));  // wraps
          else
            to = bits<unsigned>(static_cast<float>(static_cast<double>(bits<float>(to)) + sum));
        }
    }
  }
}

struct Begun : Product {
  int line;
};

void begin(void** all, int count) {
  const auto own = [&](int thread) -> Begun& { return *static_cast<Begun*>(all[thread]); };
  const Begun& first = own(0);
  const int line = first.line, places = first.rows * first.columns / 2;
  if (first.columns % 8 || first.columns < 8 || first.columns > 256)
    report(str(who(line), " multiplies by ", first.columns, " columns"));
  Sums results{++own_batches().begun, line, first.integers};
  Sums* before = nullptr;
  for (int t = 0; t < count; ++t) {
    if (own(t).left_at != first.left_at || own(t).right_at != first.right_at || own(t).add != first.add)
      report(str(who(line), " and thread ", here.thread + t, " of its group multiply different operands"));
    for (int r = 0; r < places; ++r) {
      Sums* from = nullptr;
      results.of[t].push_back(own(t).add ? sum_behind(own(t).sums[r], t, r, first.integers, from, line) : 0);
      if (from) before = from;
    }
  }
  if (before) before->added_at = line;
  multiply(all, line, results);
  last_number = last_number % most_numbers + 1;
  const unsigned mark = (first.integers ? integer_mark : float_mark) | last_number;
  for (int t = 0; t < count; ++t)
    for (int r = 0; r < places; ++r) own(t).sums[r] = mark;
  in_flight[last_number] = std::move(results);
  if (in_flight.size() > kept) in_flight.erase(in_flight.begin());
}

}  // namespace

void start_products() {
  batches.clear();
  in_flight.clear();
  last_number = 0;
}

void begin_product(Product product, const Site& site) {
  if (!here.grouped)
    report(str(who(site.line), " multiplies, and the kernel does not begin with this_group()"));
  Begun begun{{product}, site.line};
  Group group = Group::synchronized();
  group.anywhere = false;
  meet(group, site, &begun, begin);
}

void retire_products(int pending) {
  const Batches& own = own_batches();
  if (own.begun > static_cast<unsigned>(pending))
    own_clock().learn({own.agent, own.begun - static_cast<unsigned>(pending)});
}

void take_sums(unsigned* sums, int count, int pending, bool integers, int line) {
  retire_products(pending);
  const unsigned begun = own_batches().begun;
  const int thread = here.thread % threads;
  for (int r = 0; r < count; ++r) {
    Sums* from = nullptr;
    const unsigned sum = sum_behind(sums[r], thread, r, integers, from, line);
    if (from && from->batch + static_cast<unsigned>(pending) > begun)
      report(str(who(line), " awaits the sums of the product of line ", from->line, ", one of the last ",
                 pending, ", which may be in flight"));
    sums[r] = sum;
  }
}

void check_sum(unsigned bits, int line) {
  if (!here.grouped) return;
  const Sums* sums = marked(bits, integer_mark);
  if (sums && !sums->integers) sums = nullptr;
  for (unsigned quieted : {0u, quiet})
    if (!sums) sums = marked((bits & 0x7fffffffu) & ~quieted, float_mark);
  if (sums)
    report(str(who(line), " uses a sum of the product of line ", sums->line, " before mma_awaited()"));
}

namespace {

struct Stored {
  char* row;
  unsigned words[4];
  bool transposed;
};
void store(void** all, int count) {
  const auto lane = [&](int i) -> Stored& { return *static_cast<Stored*>(all[i]); };
  for (int l = 0; l < count; ++l)
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int i = 0; i < 2; ++i) {
        const int row = l / 4, column = l % 4 * 2 + i;
        const auto half = static_cast<unsigned short>(lane(l).words[matrix] >> 16 * i);
        const bool transposed = lane(l).transposed;
        std::memcpy(lane(matrix * 8 + (transposed ? column : row)).row + (transposed ? row : column) * 2,
                    &half, 2);
      }
}

}  // namespace

void store_matrices(const void* row, const unsigned (&words)[4], bool transposed, const Site& site) {
  check_shared(row, chunk, Access::store, site.line);
  Stored mine{
      const_cast<char*>(static_cast<const char*>(row)), {words[0], words[1], words[2], words[3]}, transposed};
  meet(Group::warp(), site, &mine, store);
}

}  // namespace tile::emulator
