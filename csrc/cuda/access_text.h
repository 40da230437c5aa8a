// Emits the arguments of the device library's loads, stores, gathers and scatters.
#pragma once
#include "cuda/emitter.h"

namespace tile::cuda {

// "constant_array | whole_vectors", or "plain": of the array and of what is known of the access.
std::string flags_text(const Op& op, const ArrayFacts& facts);
// Returns the padding of a load as source text.
std::string pad_text(const Op& op);
// Neighbours along the array's unit axis that a thread moves at once.
int access_width(const ArrayFacts& facts, const Type& type, const Shape& steps, const Layout& layout);

// Where a tile begins along an axis: "tile_start<32>(v3)", or of an array that is not small "i64(v3) * 32".
std::string axis_start_text(Emitter& emitter, const ArrayFacts& facts, const Value* index, int64_t step);
// "{tile_start<32>(v3), tile_start<64>(v4)}": along each, from operand `first` on.
std::string start_text(Emitter& emitter, const Op& op, size_t first);

// "Masked<L0>{v5}", of no operand of that number "Always()".
std::string mask_text(Emitter& emitter, const Op& op, size_t operand, const Layout& layout);
// Elements at index tiles, from operand `first` on. Scalars count as tiles of one element, which every thread
// holds.
struct ElementsText {
  std::string mask, index;  // index: ", v3, v4"
};
ElementsText elements_text(Emitter& emitter, const Op& op, size_t first, const Layout& layout);
// Indices, values and result have one layout.
std::optional<Layout> relate_elements(const Op& op, const Value* from, const Value* to, const Layout& layout);

}  // namespace tile::cuda
