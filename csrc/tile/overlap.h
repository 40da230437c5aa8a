// Offers the overlap checks of tensors to operators.
#pragma once
#include "torch/overlap.h"
