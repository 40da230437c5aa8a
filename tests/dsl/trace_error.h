// Returns the error of tracing a kernel of an f32 matrix and an f32 vector; `here` is a line of a test file.
#pragma once
#include <functional>
#include <regex>
#include <string>

#include "dsl/tracer.h"
#include "error_text.h"
#include "tile.h"

namespace tile {

inline std::string trace_error(const std::function<void(Array, Array)>& body) {
  const std::string text = error_of([&] {
    Tracer tracer("kernel");
    Function& function = tracer.function();
    Array x(function.add_argument(function.body(), Type::array(f32, 2), {}));
    Array y(function.add_argument(function.body(), Type::array(f32, 1), {}));
    body(x, y);
    tracer.finish();
  });
  return std::regex_replace(text, std::regex(R"((\w+_test\.cpp|trace_error\.h):\d+)"), "here");
}

inline Tile ones_at(Array x) { return x.tiled_view({4, 8}).load({0, 0}); }

}  // namespace tile
