// Treats arrays of one shape as matrices of tiles, for operators on tensors of any rank and strides.
#pragma once
#include "expr/elements.h"
