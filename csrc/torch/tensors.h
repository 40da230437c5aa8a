// The part of torch that operators are written with: tensors, boxed values, the factories for `outputs`. It
// is precompiled, so it includes no header of ours.
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
