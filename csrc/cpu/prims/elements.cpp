// gather and scatter.
#include "cpu/elements.h"

#include "cpu/places.h"

namespace tile::cpu {
namespace {

struct ElementPlaces {
  Elements elements;
  ElementPlaces(LoweringContext& lower, const Op& op) : elements(lower, op, first_place(op)) {}
  template <class Visit>
  void each_run(Frame& frame, const Visit& visit) const {
    const int64_t bytes = info(frame.arrays[static_cast<size_t>(elements.array)].dtype).bytes;
    elements.each(frame, [&](int64_t i, char* address) {
      if (address) visit(i, address, bytes, 1);
    });
  }
};

const AddLoweringRule gather_{{"gather", lower_places<ReadNode<ElementPlaces>>}};
const AddLoweringRule scatter_{{"scatter", lower_places<WriteNode<ElementPlaces>>}};

}  // namespace
}  // namespace tile::cpu
