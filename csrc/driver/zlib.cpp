// Calls zlib's uncompress().
#include "driver/zlib.h"

#include <new>

#include "driver/library.h"
#include "support/error.h"

namespace tile {
namespace {

constexpr int out_of_memory = -4;  // Z_MEM_ERROR
constexpr const char* install = "install the system's package of zlib, zlib1g or zlib";

using Uncompress = int(unsigned char*, unsigned long*, const unsigned char*, unsigned long);

}  // namespace

std::optional<std::string> decompressed(std::string_view stream, size_t size, const std::string& library) {
  const Library zlib = Library::open(library);
  if (!zlib)
    fail(ErrorKind::runtime, "zlib, which decompresses packs, is not found (", zlib.why(), "); ", install);
  Uncompress* uncompress = nullptr;
  zlib.require("uncompress", uncompress, install);
  std::string data(size + 1, '\0');  // room for one more byte, which shows that the data are longer
  unsigned long bytes = data.size();
  const int code = uncompress(reinterpret_cast<unsigned char*>(data.data()), &bytes,
                              reinterpret_cast<const unsigned char*>(stream.data()), stream.size());
  if (code == out_of_memory) throw std::bad_alloc();
  if (code || bytes != size) return std::nullopt;
  data.resize(size);
  return data;
}

}  // namespace tile
