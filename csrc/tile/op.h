// What an operator's author includes: tensors, the factories for `outputs`, and op().
#pragma once
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include "torch/op.h"
