// What operators ask beside their arguments: torch's switches.
#pragma once

namespace tile {

// torch.use_deterministic_algorithms: results are to repeat to the last bit.
bool wants_fixed_order();

}  // namespace tile
