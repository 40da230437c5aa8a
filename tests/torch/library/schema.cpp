// Defines an operator with any schema; tests/fuzz calls it through ctypes.
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdio>

#include "torch/op.h"

// Writes the schema that torch keeps and returns 0, or writes the error and returns 1.
extern "C" __attribute__((visibility("default"))) int tile_test_schema(const char* schema, char* text,
                                                                       int size) {
  std::string result;
  bool wrong = false;
  try {
    const tile::Operator made = tile::redefine(schema);
    made.check();
    result = "an operator without functions passed its check";
    wrong = true;
  } catch (const std::exception& error) {
    result = error.what();
    const size_t end = result.rfind(": has no run; add .run(…) to its definition");
    wrong = end == std::string::npos;
    if (!wrong) {
      const std::string name = result.substr(0, end).substr(result.substr(0, end).rfind(' ') + 1);
      const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
      result = handle ? tile::str(handle->schema()) : name + " is not registered";
      wrong = !handle;
    }
  }
  std::snprintf(text, static_cast<size_t>(size), "%s", result.c_str());
  return wrong;
}
