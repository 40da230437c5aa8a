// Overlap checks of tensors, for operators.
#pragma once
#include "torch/overlap.h"
