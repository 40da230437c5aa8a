// Makes keys of packs and of the disk cache from texts.
#pragma once
#include <string_view>

#include "support/sha256.h"

namespace tile {

inline Sha256::Digest key_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.digest();
}

}  // namespace tile
