// Concatenates the parts of a text.
#include "support/text.h"

namespace tile {

std::string str_of(std::initializer_list<TextPart> parts) {
  std::ostringstream out;
  for (const TextPart& part : parts) part.write(out, part.value);
  return out.str();
}

}  // namespace tile
