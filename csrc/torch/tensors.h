// The part of torch that an operator is written with: tensors, boxed values, the factories for `outputs`.
// Precompiled, hence no header of ours.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
