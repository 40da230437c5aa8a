// print: tiles go to shared memory, and one thread writes the text.
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
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
    // Three octal digits, so that a following digit does not extend the number.
    to += '\\';
    for (const int shift : {6, 3, 0}) to += static_cast<char>('0' + (byte >> shift & 7));
  }
  return to + '"';
}

std::string argument(FormatPart::Kind kind, const std::string& value) {
  const char* as = kind == FormatPart::Kind::floating         ? "as_floating("
                   : kind == FormatPart::Kind::signed_integer ? "as_signed("
                                                              : "as_unsigned(";
  return str(as, value, ")");
}

// Collects printf calls. Adjacent text and scalars share one call, whose output is contiguous.
class Calls {
 public:
  void add_text(const std::string& text) {
    for (const char c : text) format_ += c == '%' ? std::string("%%") : std::string(1, c);
  }
  void add_scalar(const std::string& conversion, const std::string& value) {
    constexpr int most = 32;  // limit of one call on a GPU
    if (values_ == most) flush();
    ++values_;
    format_ += conversion;
    arguments_ += ", " + value;
  }
  void add_call(const std::string& call) {
    flush();
    text_ += call + "; ";
  }
  std::string text() {
    flush();
    return text_;
  }

 private:
  void flush() {
    if (!format_.empty()) text_ += str("printf(", quoted(format_), arguments_, "); ");
    format_.clear(), arguments_.clear(), values_ = 0;
  }
  std::string text_, format_, arguments_;
  int values_ = 0;
};

void emit_print(Emitter& emitter, const Op& op) {
  emitter.need("print.cuh");
  Calls calls;
  int64_t bytes = 0;
  size_t next = 0;
  for (const FormatPart& part : format_parts(op)) {
    calls.add_text(part.text);
    if (part.conversion.empty()) continue;
    const Value* value = op.operands[next++];
    if (value->type.is_scalar()) {
      calls.add_scalar(part.conversion, argument(part.kind, emitter.name(value)));
      continue;
    }
    const std::string memory = emitter.write_shared(op, value, bytes);
    calls.add_call(str("print_tile<", join(value->type.shape), ">(", memory, ", ", line_number(op), ", [](",
                       value->type.dtype, " x) { printf(", quoted(part.conversion), ", ",
                       argument(part.kind, "x"), "); })"));
  }
  if (bytes) emitter.synchronize(op);
  emitter.line(op, str("if (thread() == 0) { ", calls.text(), "}"));
  if (bytes) emitter.leave_shared();
}

const AddLoweringRule print_{{.name = "print", .emit = emit_print, .single_cta = true}};

}  // namespace
}  // namespace tile::cuda
