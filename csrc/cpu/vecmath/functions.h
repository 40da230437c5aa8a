// Includes all vector functions. sqrt, rsqrt and the roundings to integers are in vec_math.h.
#pragma once
#include "cpu/vecmath/erf.h"
#include "cpu/vecmath/exp.h"
#include "cpu/vecmath/hyperbolic.h"
#include "cpu/vecmath/inverse_trig.h"
#include "cpu/vecmath/log.h"
#include "cpu/vecmath/pow.h"
#include "cpu/vecmath/trig.h"
