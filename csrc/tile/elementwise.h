// Defines elementwise operators from one expression.
#pragma once
#include "expr/elementwise.h"
