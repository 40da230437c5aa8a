// Decompresses DEFLATE (RFC 1951), the format that Python's zlib writes with wbits=-15.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tile {

// Returns the data, which must have exactly `size` bytes, or none if the input is malformed.
std::optional<std::string> inflate(std::string_view bytes, size_t size);

}  // namespace tile
