// print: writes text with values while the kernel runs.
#include "prims/print.h"

#include "ir/format.h"

namespace tile {
namespace {

std::vector<Type> infer_print(const Op& op) {
  format_parts(op);
  return {};
}

const Register print_{{.name = "print",
                       .traits = {.effect = true},
                       .infer = infer_print,
                       .doc =
                           "Prints text and values to the standard output with a C format.\n"
                           "operands: a tile or scalar for each conversion.\n"
                           "{format}: text with conversions d i u o x X for integers and bool, e E f F g G a "
                           "A for floats, %% for a percent sign.\n"
                           "C++: print."}};

}  // namespace

void print(std::string_view format, std::initializer_list<Operand> values, Location location) {
  std::vector<Value*> operands;
  for (const Operand& value : values) operands.push_back(value.any());
  emit(print_, operands, {{"format", std::string(format)}}, location);
}

}  // namespace tile
