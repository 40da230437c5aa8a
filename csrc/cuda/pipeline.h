// Text of tiles that are staged in shared memory for products, and of loops that load them some iterations
// ahead.
#pragma once
#include <functional>

#include "cuda/emitter.h"

namespace tile::cuda {

// "load<L0, 8, …>(v3, {…}, …)": a load of a tile to registers. In prims/memory.cpp.
std::string load_text(Emitter& emitter, const Op& op, const Layout& layout);

// "index_after<2>(v3, v1, v2)": the index some iterations after this one of a counted loop, or its end.
std::string index_after_text(Emitter& emitter, const Op& loop, const std::string& index, int iterations);

// "const auto load = [&](i32 index, parameters) { addresses; body };" of a counted loop, and its name: the
// addresses of an iteration are computed from its index, under names of their own.
std::string declare_load(Emitter& emitter, const Op& loop, const std::string& parameters,
                         const std::vector<const Op*>& address, const std::function<void()>& body);

// "const i32 t5 = index_after<2>(…);", for an iteration some iterations after this one.
std::string declare_index(Emitter& emitter, const Op& loop, int iterations);

// "Part<bf16, 64, 4, 8, 2, 2>", of operands that differ "Part<Mixed<i8, u8>, …>": of a warp in a product;
// "SharedLeft<tile type, false>{tile}": its operand i.
std::string part_text(const Op& mma, const MmaPlan& plan);
std::string operand_text(size_t i, const std::string& tile_type, bool transposed, const std::string& tile);

// The load of a staged tile: in a loop that runs ahead only its name, elsewhere the copy and the wait for it.
void emit_staged_load(Emitter& emitter, const Staged& staged);

// A counted loop's tiles that are loaded ahead; does nothing where it has none.
class StagedLoop {
 public:
  StagedLoop(Emitter& emitter,
             const Op& op);  // before the loop: a function that loads an iteration, the first iterations
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
  // Behind the last reads of an iteration, while the tensor cores are still at work; two buffers leave no
  // time for that.
  bool copies_late() const { return stages_ > 2; }
  const Op* product_ = nullptr;  // of a loop of products alone
  std::vector<const Staged*> staged_;
  int stages_ = 0;
  std::string load_, stage_;
};

}  // namespace tile::cuda
