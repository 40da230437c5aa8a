// Reduction operators from a map, a combination and a finish.
#pragma once
#include "expr/reduction.h"
