// Defines reduction operators from a map, a combination and a finish function.
#pragma once
#include "expr/reduction.h"
