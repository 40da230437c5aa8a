// Writes the instructions of statements, and numbers their operands: sums, left operand, right one, `add`.
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
std::string operands(std::string_view constraint, std::string_view array, size_t first, size_t count) {
  std::string text;
  for (size_t i = first; i < first + count; ++i)
    text += str(i > first ? ", " : "", '"', constraint, "\"(", array, "[", i, "])");
  return text;
}
std::string line(const std::string& instruction) { return str("        \"", instruction, "; \"\n"); }

// Few steps with the left operand in shared memory compile no faster in one statement, and small matmuls
// would take more registers.
bool is_one_statement(const WgmmaProduct& product) {
  return product.left_blocks.size() == 1 &&
         (product.left_steps.empty() || product.held_steps || product.right_steps.size() >= 8);
}

}  // namespace

std::string wgmma_text(const WgmmaProduct& product) {
  const bool in_registers = product.left_steps.empty(), floats = is_floating(product.left);
  const size_t blocks = product.left_blocks.size(), steps = product.right_steps.size(),
               register_steps = in_registers ? steps : product.held_steps,
               words = blocks * register_steps * 4;
  const auto sums_of_block = static_cast<size_t>(product.columns / 2);
  const char* registers = in_registers ? "left" : "held";
  const int bytes = info(product.left).bytes;
  const std::string instruction =
      str("wgmma.mma_async.sync.aligned.m64n", product.columns, "k", 32 / bytes, floats ? ".f32." : ".s32.",
          name_of(product.left), ".", name_of(product.right), " ");
  // The signs of both operands. Only those of 16 bits may be read along the other axis than k.
  const auto ending = [&](size_t step) {
    std::string text = floats ? ", 1, 1" : "";
    if (bytes != 2) return text;
    if (step >= register_steps) text += str(", ", product.left_k_major ? 0 : 1);
    return text + str(", ", product.right_k_major ? 0 : 1);
  };
  const auto sums_from = [&](size_t first) {
    return operands(floats ? "+f" : "+r", "sums", first, sums_of_block);
  };
  std::string text = str("  TILE_WGMMA(TILE static void multiply(", floats ? "f32" : "i32", "* sums, ",
                         register_steps ? str("const u32* ", registers, ", ") : "",
                         in_registers ? "" : "u64 left, ", "u64 right, u32 add) {\n");
  const std::string fence = "wgmma.fence.sync.aligned", commit = "wgmma.commit_group.sync.aligned";
  if (is_one_statement(product)) {
    const size_t left = sums_of_block + words, right = left + (in_registers ? 0 : 1), add = right + 1;
    // Descriptors count 16 bytes. Computed ahead of the statement, those of later steps would take registers.
    const auto descriptor = [&](size_t operand, const char* name, int64_t offset) {
      if (!offset) return str("%", operand);
      text += line(str("add.s64 ", name, ", %", operand, ", ", offset / 16));
      return std::string(name);
    };
    text += str("    asm volatile(\n", line("{ .reg .pred p, q; .reg .b64 a, b"),
                line(str("setp.ne.b32 p, %", add, ", 0")), line("setp.eq.b32 q, 0, 0"), line(fence));
    for (size_t step = 0; step < steps; ++step) {
      const std::string of_right = descriptor(right, "b", product.right_steps[step]);
      const std::string of_left =
          step < register_steps ? numbers(sums_of_block + step * 4, 4)
                                : descriptor(left, "a", product.left_steps[step] + product.left_blocks[0]);
      text += line(str(instruction, numbers(0, sums_of_block), ", ", of_left, ", ", of_right, ", ",
                       step ? "q" : "p", ending(step)));
    }
    text += str(line(commit), "        \"}\"\n        : ", sums_from(0),
                "\n        : ", words ? operands("r", registers, 0, words) + ", " : "",
                in_registers ? "" : "\"l\"(left), ", "\"l\"(right), \"r\"(add)\n        : \"memory\");\n");
    return text + "  })\n";
  }
  const auto alone = [](const std::string& name) {
    return str("    asm volatile(\"", name, ";\" ::: \"memory\");\n");
  };
  if (words) {
    text += str("    u32 own[", words, "];\n    TILE_UNROLL\n    for (int i = 0; i < ", words,
                "; ++i) own[i] = ", registers, "[i];\n    pin<", words, ">(own);\n");
  }
  text += str("    pin<", blocks * sums_of_block, ">(sums);\n", alone(fence));
  // The blocks of rows take turns, so that no product waits for the sums of the one before.
  for (size_t step = 0; step < steps; ++step)
    for (size_t block = 0; block < blocks; ++block) {
      const bool from_registers = step < register_steps;
      const size_t left = sums_of_block, right = left + (from_registers ? 4 : 1), add = right + 1;
      const std::string of_left = from_registers ? numbers(left, 4) : str("%", left);
      text += str(
          "    asm volatile(\n", line(str("{ .reg .pred p; setp.ne.b32 p, %", add, ", 0")),
          line(str(instruction, numbers(0, sums_of_block), ", ", of_left, ", %", right, ", p", ending(step))),
          "        \"}\"\n        : ", sums_from(block * sums_of_block), "\n        : ",
          from_registers
              ? operands("r", "own", (block * register_steps + step) * 4, 4)
              : str("\"l\"(left + ", (product.left_steps[step] + product.left_blocks[block]) / 16, ")"),
          ", \"l\"(right + ", product.right_steps[step] / 16, "), \"r\"(", step ? "1" : "add", "));\n");
    }
  return text + alone(commit) + "  })\n";
}

}  // namespace tile::cuda
