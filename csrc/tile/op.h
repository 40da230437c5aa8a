// What an operator's author includes: the kernel language, tensors, the factories for `outputs`, and op().
#pragma once
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include "runtime/kernel.h"
#include "tile.h"
#include "torch/args.h"
#include "torch/op.h"
