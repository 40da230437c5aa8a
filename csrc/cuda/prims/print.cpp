// print: tiles go to shared memory, and one thread writes the text.
#include "cuda/emitter.h"
#include "cuda/lowering.h"
#include "ir/format.h"

namespace tile::cuda {
namespace {

std::string quoted(const std::string& text) {
  std::string to = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 127 && c != '"' && c != '\\' && c != '?') {
      to += c;
      continue;
    }
    // Three octal digits: what follows is no part of the number.
    to += '\\';
    for (const int shift : {6, 3, 0}) to += static_cast<char>('0' + (byte >> shift & 7));
  }
  return to + '"';
}

std::string function_of(FormatPart::Kind kind) {
  return kind == FormatPart::Kind::floating         ? "print_floating"
         : kind == FormatPart::Kind::signed_integer ? "print_signed"
                                                    : "print_unsigned";
}

void emit_print(Emitter& emitter, const Op& op) {
  emitter.need("print.cuh");
  std::string text;
  int64_t bytes = 0;
  size_t next = 0;
  for (const FormatPart& part : format_parts(op)) {
    if (!part.text.empty()) text += str("print_text(", quoted(part.text), "); ");
    if (part.conversion.empty()) continue;
    const Value* value = op.operands[next++];
    const std::string print = str(function_of(part.kind), "(", quoted(part.conversion), ", ");
    if (value->type.is_scalar()) {
      text += str(print, emitter.name(value), "); ");
      continue;
    }
    const std::string place = emitter.write_shared(op, value, bytes);
    text += str("print_tile<", join(value->type.shape), ">(", place, ", [](", value->type.dtype, " x) { ", print,
                "x); }, ", line_number(op), "); ");
  }
  if (bytes) emitter.synchronize(op);
  emitter.line(op, str("if (thread() == 0) { ", text, "}"));
  if (bytes) emitter.leave_shared();
}

const AddLowering print_{{.name = "print", .emit = emit_print, .alone = true}};

}  // namespace
}  // namespace tile::cuda
