// The vector layer of one instruction set: registers, memory, conversions, integer helpers. Functions:
// functions.h.
#pragma once
#include "cpu/isa/convert.h"
#include "cpu/isa/half.h"
#include "cpu/isa/integer.h"
#include "cpu/isa/vec.h"
#include "cpu/isa/vec_math.h"
#include "cpu/isa/vec_memory.h"
