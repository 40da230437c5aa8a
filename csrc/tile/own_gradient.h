// Parts of an operator's run whose gradient its author gives, for grad_by_compiler().
#pragma once
#include "torch/own_gradient.h"
