// Writes the instructions of the statement, and numbers its operands: sums, left operand, right one, `add`.
#include "cuda/async/wgmma_text.h"

#include "support/text.h"

namespace tile::cuda {
namespace {

// Returns the name of a type in an instruction, such as "e4m3".
std::string name_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3:
      return "e4m3";
    case DType::f8e5m2:
      return "e5m2";
    case DType::i8:
      return "s8";
    default:
      return str(dtype);
  }
}
// Returns "{%4, %5, %6, %7}".
std::string numbers(size_t first, size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) text += str(i ? ", " : "", "%", first + i);
  return text + "}";
}
// Returns `"r"(left[0]), "r"(left[1])`.
std::string operands(std::string_view constraint, std::string_view array, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += str(i ? ", " : "", '"', constraint, "\"(", array, "[", i, "])");
  return text;
}
std::string line(const std::string& instruction) { return str("        \"", instruction, "; \"\n"); }

}  // namespace

std::string wgmma_text(const WgmmaProduct& product) {
  const bool in_registers = product.left_steps.empty(), floats = is_floating(product.left);
  const size_t blocks = product.left_blocks.size(), steps = product.right_steps.size();
  const auto sums_of_block = static_cast<size_t>(product.columns / 2);
  const size_t sums = blocks * sums_of_block, words = in_registers ? blocks * steps * 4 : 1;
  const size_t left = sums, right = left + words, add = right + 1;
  const int bytes = info(product.left).bytes;
  const std::string instruction =
      str("wgmma.mma_async.sync.aligned.m64n", product.columns, "k", 32 / bytes, floats ? ".f32." : ".s32.",
          name_of(product.left), ".", name_of(product.right), " ");
  // The signs of both operands. Only those of 16 bits may be read along the other axis than k.
  std::string ending = floats ? ", 1, 1" : "";
  if (bytes == 2) {
    if (!in_registers) ending += str(", ", product.left_k_major ? 0 : 1);
    ending += str(", ", product.right_k_major ? 0 : 1);
  }
  // Descriptors count 16 bytes. Computed ahead of the statement, those of later steps would take registers.
  std::string text;
  const auto descriptor = [&](size_t operand, const char* name, int64_t offset) {
    if (!offset) return str("%", operand);
    text += line(str("add.s64 ", name, ", %", operand, ", ", offset / 16));
    return std::string(name);
  };
  text += str("  TILE_WGMMA(TILE static void multiply(", floats ? "f32" : "i32", "* sums, ",
              in_registers ? "const u32* left" : "u64 left", ", u64 right, u32 add) {\n    asm volatile(\n",
              line("{ .reg .pred p, q; .reg .b64 a, b"), line(str("setp.ne.b32 p, %", add, ", 0")),
              line("setp.eq.b32 q, 0, 0"), line("wgmma.fence.sync.aligned"));
  // The blocks of rows take turns, so that no product waits for the sums of the one before.
  for (size_t step = 0; step < steps; ++step) {
    const std::string of_right = descriptor(right, "b", product.right_steps[step]);
    for (size_t block = 0; block < blocks; ++block) {
      const std::string of_left =
          in_registers ? numbers(left + (block * steps + step) * 4, 4)
                       : descriptor(left, "a", product.left_steps[step] + product.left_blocks[block]);
      text += line(str(instruction, numbers(block * sums_of_block, sums_of_block), ", ", of_left, ", ",
                       of_right, ", ", step ? "q" : "p", ending));
    }
  }
  text += line("wgmma.commit_group.sync.aligned");
  return str(text, "        \"}\"\n        : ", operands(floats ? "+f" : "+r", "sums", sums),
             "\n        : ", in_registers ? operands("r", "left", words) : "\"l\"(left)",
             ", \"l\"(right), \"r\"(add)\n        : \"memory\");\n  })\n");
}

}  // namespace tile::cuda
