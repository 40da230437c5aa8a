// Includes the vector layer of one instruction set: registers, memory, conversions, integer helpers.
// Functions are in functions.h.
#pragma once
#include "cpu/vecmath/convert.h"
#include "cpu/vecmath/half.h"
#include "cpu/vecmath/integer.h"
#include "cpu/vecmath/vec.h"
#include "cpu/vecmath/vec_math.h"
#include "cpu/vecmath/vec_memory.h"
