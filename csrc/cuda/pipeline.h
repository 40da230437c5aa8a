// Emits staged tiles: products' operands in shared memory, and loops that load them some iterations
// ahead.
#pragma once
#include <functional>

#include "cuda/emitter.h"

namespace tile::cuda {

// Returns a load of a tile into registers: "load<L0, 8, …>(v3, {…}, …)". Defined in
// prims/memory.cpp.
std::string load_text(Emitter& emitter, const Op& op, const Layout& layout);

// Returns the copy of gathered rows to a staged tile: "copy_rows_async<L0, …>(to, v3, …);". Defined in
// prims/rows.cpp.
std::string copy_rows_text(Emitter& emitter, const Op& load, const std::string& to,
                           const std::string& wanted);

// Returns the index of a counted loop some iterations later, at most its end: "index_after<2>(v3,
// v1, v2)".
std::string index_after_text(Emitter& emitter, const Op& loop, const std::string& index, int iterations);

// Declares "const auto load = [&](i32 index, parameters) { addresses; body };" in a counted loop
// and returns its name. The addresses are computed from the lambda's index, under their own names.
std::string declare_load(Emitter& emitter, const Op& loop, const std::string& parameters,
                         const std::vector<const Op*>& address, const std::function<void()>& body);

// Declares "const i32 t5 = index_after<2>(…);" for an iteration some iterations later.
std::string declare_index(Emitter& emitter, const Op& loop, int iterations);

// Returns a warp's part of a product: "Part<bf16, 64, 4, 8, 2, 2>", or "Part<Mixed<i8, u8>, …>" if
// the operands' dtypes differ; and its operand i: "SharedLeft<tile type, false>{tile}".
std::string part_text(const Op& mma, const MmaPlan& plan);
std::string operand_text(size_t i, const std::string& tile_type, bool transposed, const std::string& tile);

// Emits the load of a staged tile: only its name if a loop loads it ahead, else the copy and the
// wait for it.
void emit_staged_load(Emitter& emitter, const Staged& staged);

// The tiles of a counted loop that are loaded ahead; does nothing if there are none.
class StagedLoop {
 public:
  // Emits, before the loop, a function that loads an iteration, and the loads of the first iterations.
  StagedLoop(Emitter& emitter, const Op& op);
  bool waits() const {
    return !staged_.empty();
  }  // each iteration begins with a barrier, and one follows the last
  void begin_iteration();
  void end_iteration();
  void end();

 private:
  Emitter& emitter_;
  const Op& op_;
  std::string copy_text();
  void declare_fragments(const std::string& memory, int64_t bytes);
  // Returns true if copies start after an iteration's last reads, while the tensor cores still
  // compute. Two buffers leave no time for that.
  bool copies_late() const { return stages_ > 2; }
  const Op* product_ = nullptr;  // set if the loop only computes products
  std::vector<const Staged*> staged_;
  int stages_ = 0;
  std::string load_, stage_;
};

}  // namespace tile::cuda
