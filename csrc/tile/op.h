// The header for operator authors: the kernel language, tensors, the factories for `outputs`, and op().
#pragma once
#include "runtime/device_limits.h"
#include "runtime/kernel.h"
#include "tile.h"
#include "torch/args.h"
#include "torch/context.h"
#include "torch/op.h"
#include "torch/tensors.h"
#include "torch/threads.h"
