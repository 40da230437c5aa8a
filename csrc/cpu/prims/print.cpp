// print: a block's text is written in one piece.
#include <cstdio>
#include <cstring>

#include "cpu/interpreter/lane_integer.h"
#include "cpu/interpreter/operand.h"
#include "cpu/interpreter/tables.h"
#include "ir/format.h"

namespace tile::cpu {
namespace {

template <class T>
std::string formatted(const std::string& conversion, T value) {
  const int size = std::snprintf(nullptr, 0, conversion.c_str(), value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), conversion.c_str(), value);
  text.pop_back();
  return text;
}

struct Shown {
  FormatPart part;
  WholeOperand value;  // unset for the last part

  std::string element(const char* lanes, int64_t i) const {
    const Lane lane = lane_of(value.dtype);
    const int bytes = lane_bytes(lane);
    if (part.kind == FormatPart::Kind::floating) {
      const char* at = lanes + i * bytes;
      double x = 0;
      float narrow = 0;
      bytes == 8 ? std::memcpy(&x, at, 8) : std::memcpy(&narrow, at, 4);
      return formatted(part.conversion, bytes == 8 ? x : double{narrow});
    }
    const int64_t number = lane_integer(lanes, lane, i);
    if (part.kind == FormatPart::Kind::signed_integer)
      return formatted(part.conversion, static_cast<long long>(number));
    // Keeps the bits of a negative number's own width.
    return formatted(part.conversion, static_cast<unsigned long long>(number) & ~0ull >> (64 - 8 * bytes));
  }
  // Formats a tile: "[[0, 1], [2, 3]]".
  std::string text(Frame& frame) const {
    const char* lanes = value.lanes(frame);
    std::string all;
    const int64_t count = value.count();
    for (int64_t i = 0; i < count; ++i) {
      if (i) all += ", ";
      int64_t inner = 1;
      std::string opened, closed;
      for (size_t axis = value.shape.size(); axis-- > 0;) {
        inner *= value.shape[axis];
        if (i % inner == 0) opened += '[';
        if ((i + 1) % inner == 0) closed += ']';
      }
      all += opened + element(lanes, i) + closed;
    }
    return all;
  }
};

struct PrintNode final : OpNode {
  std::vector<Shown> all;

  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    std::string text;
    for (const Shown& shown : all) {
      text += shown.part.text;
      if (!shown.part.conversion.empty()) text += shown.text(frame);
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_print(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<PrintNode>();
  size_t value = 0;
  for (FormatPart& part : format_parts(op)) {
    Shown shown{std::move(part), {}};
    if (!shown.part.conversion.empty()) shown.value = WholeOperand::of(lower, op.operands[value++]);
    node->all.push_back(std::move(shown));
  }
  return node;
}

const AddLoweringRule print_{{"print", lower_print}};

}  // namespace
}  // namespace tile::cpu
