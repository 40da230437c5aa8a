// Errors: tile::Error carries a kind (which determines its Python class) and a message with location, facts
// and fix.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include "support/location.h"
#include "support/text.h"

namespace tile {

// value: shapes and options; type: dtypes; unsupported: not implemented; runtime: everything else.
enum class ErrorKind { value, type, unsupported, runtime };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string text) : std::runtime_error(std::move(text)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// fail(kind, "matmul: ", …) throws an error that no line of a kernel caused.
template <class... A>
[[noreturn]] void fail(ErrorKind kind, const A&... parts) {
  throw Error(kind, tile::str(parts...));
}
// fail(where, kind, …) prefixes the user's file and line.
template <class... A>
[[noreturn]] void fail(const Location& where, ErrorKind kind, const A&... parts) {
  throw Error(kind, where.known() ? tile::str(where, ": ", parts...) : tile::str(parts...));
}

}  // namespace tile

// Throws for a broken internal invariant, never for a mistake of the user; the message says so.
#define TILE_CHECK(condition, ...)                                                                     \
  do {                                                                                                 \
    if (!(condition))                                                                                  \
      ::tile::fail(::tile::Location::current(), ::tile::ErrorKind::runtime,                            \
                   "internal error, please report it: " #condition " does not hold. ", ##__VA_ARGS__); \
  } while (false)
