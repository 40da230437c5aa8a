// The instruction sets that tests run: those of this machine.
#pragma once
#include <vector>

#include "cpu/vecmath/isa.h"

namespace tile::cpu {

inline std::vector<Isa> machine_isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    if (supported(isa)) isas.push_back(isa);
  return isas;
}

}  // namespace tile::cpu
