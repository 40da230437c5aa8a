// All vector functions of the layer. sqrt, rsqrt and the roundings are in vec_math.h.
#pragma once
#include "cpu/isa/erf.h"
#include "cpu/isa/exp.h"
#include "cpu/isa/hyperbolic.h"
#include "cpu/isa/inverse_trig.h"
#include "cpu/isa/log.h"
#include "cpu/isa/pow.h"
#include "cpu/isa/trig.h"
