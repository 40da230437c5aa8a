// The text of the error that some action ends in.
#pragma once
#include <string>

#include "support/error.h"

namespace tile {

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tile
