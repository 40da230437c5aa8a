// Matrix products: operands in shared memory, the accumulator in registers.
#include "cuda/emitter.h"
#include "cuda/lowering.h"

namespace tile::cuda {
namespace {

void emit_mma(Emitter& emitter, const Op& op) {
  emitter.need("mma.cuh");
  emitter.need("move.cuh");
  const Layout& layout = emitter.layout_of(op.results[0]);
  const std::string to = emitter.in_layout(op, op.operands[2], layout);
  int64_t bytes = 0;
  std::vector<std::string> places;
  for (size_t i = 0; i < 2; ++i) {
    const Type& type = op.type(i);
    places.push_back(
        str("(", type.dtype, "*)", bytes ? str("(shared_memory() + ", bytes, ")") : "shared_memory()"));
    bytes += (element_count(type.shape) * info(type.dtype).bytes + 15) / 16 * 16;
    emitter.need_shared(op, bytes);
    emitter.line(op, str("write_shared<Weights<", join(row_major(type.shape)), ">>(", places.back(), ", ",
                         emitter.name(op.operands[i]), ", ", line_number(op), ");"));
  }
  const Shape &x = op.type(0).shape, &y = op.type(1).shape;
  const size_t rank = x.size();
  emitter.line(op, str("synchronize(", line_number(op), ");"));
  emitter.result(op, str("mma_fma<", x[rank - 2], ", ", y[rank - 1], ", ", x[rank - 1], ">(", places[0], ", ",
                         places[1], ", ", to, ", ", line_number(op), ")"));
  emitter.line(op, str("synchronize(", line_number(op), ");"));
}

// A product has its accumulator's layout.
std::optional<Layout> relate_mma(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  auto sums = [&](const Value* value) { return value == op.operands[2] || value == op.results[0]; };
  if (!sums(from) || !sums(to)) return std::nullopt;
  return layout;
}

const AddLowering mma_{{"mma", emit_mma, relate_mma}};

}  // namespace
}  // namespace tile::cuda
