// Treats arrays of one shape as [slices, rows, columns], for operators on rows of tensors of any rank and
// strides.
#pragma once
#include "expr/rows.h"
