// zlib, which decompresses the kernels of packs. It is the system's library, opened at the first use.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tile {

constexpr const char* zlib_library = "libz.so.1";

// Returns the data of a zlib stream, which must have exactly `size` bytes, or none if the stream is damaged.
// Throws an error that names the library if it cannot be opened. May be called from any thread.
std::optional<std::string> decompressed(std::string_view stream, size_t size,
                                        const std::string& library = zlib_library);

}  // namespace tile
