// Emits the arguments of the device library's loads, stores, gathers and scatters.
#pragma once
#include "cuda/emitter.h"

namespace tile::cuda {

// Returns the flags of the array and of the access: "constant_array | whole_vectors", or "plain".
std::string flags_text(const Op& op, const ArrayFacts& facts);
// Returns the padding of a load as source text.
std::string pad_text(const Op& op);
// Returns how many adjacent elements along the array's unit axis a thread moves at once.
int access_width(const ArrayFacts& facts, const Type& type, const Shape& steps, const Layout& layout);

// Returns the start of a tile along an axis: "tile_start<32>(v3)", or "i64(v3) * 32" for an array
// that is not `small`.
std::string axis_start_text(Emitter& emitter, const ArrayFacts& facts, const Value* index, int64_t step);
// Returns the starts along all axes, whose indices begin at operand `first`: "{tile_start<32>(v3),
// tile_start<64>(v4)}".
std::string start_text(Emitter& emitter, const Op& op, size_t first);

// Returns the condition of a write: "if (group_of_block() == 0) ", or nothing if all groups have their part.
std::string group_text(Emitter& emitter, const Layout& layout);

// Returns the mask text: "Masked<L0>{v5}", or "Always()" if the op has no such operand.
std::string mask_text(Emitter& emitter, const Op& op, size_t operand, const Layout& layout);
// The arguments for elements at index tiles, which begin at operand `first`. A scalar counts as a
// tile of one element that every thread holds.
struct ElementsText {
  std::string mask, index;  // index: ", v3, v4"
};
ElementsText elements_text(Emitter& emitter, const Op& op, size_t first, const Layout& layout);
// Gives indices, values and result one layout.
std::optional<Layout> relate_elements(const Op& op, const Value* from, const Value* to, const Layout& layout);

}  // namespace tile::cuda
