// Expressions as text, their derivatives, and launches over elements, for operators that take such a text.
#pragma once
#include "expr/arrays.h"
#include "expr/expression_gradient.h"
#include "expr/expression_text.h"
#include "prims/derivatives.h"
