// Computes gradients from the record of a run, in the reverse order of its steps.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "runtime/overlap.h"
#include "torch/args.h"
#include "torch/overlap.h"
#include "torch/reverse_launch.h"
#include "torch/reverse_record.h"

namespace tile {
namespace {

at::ScalarType sum_dtype(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

at::IntArrayRef sizes_of(const ArrayArgument& array) {
  return {array.sizes.data(), static_cast<size_t>(array.rank)};
}
at::IntArrayRef strides_of(const ArrayArgument& array) {
  return {array.strides.data(), static_cast<size_t>(array.rank)};
}
int64_t elements_of(const ArrayArgument& array) { return c10::multiply_integers(sizes_of(array)); }

}  // namespace

void ReverseRecord::use_saved(const std::vector<at::Tensor>& saved) {
  std::vector<const RecordedLaunch*> launches;
  for (const ReverseStep& step : steps_) {
    if (step.own) return;  // the forward may have launched other kernels there
    if (step.launch) launches.push_back(&*step.launch);
  }
  std::vector<SavedLaunch> list = saved_launches(launches, saved);
  size_t next = 0;
  for (ReverseStep& step : steps_)
    if (step.launch && !list.empty()) step.saved = std::move(list[next++]);
}

void ReverseRecord::set_target(const at::Tensor& argument, const at::Tensor& target) {
  if (!argument.numel()) return;
  for (ReverseRegion& region : regions_)
    if (region.argument.is_same(argument)) region.target = target;
}

void ReverseRecord::set_incoming(const at::Tensor& result, const at::Tensor& gradient) {
  ReverseRegion* const region = region_of(result);
  if (!region || !region->active) return;
  const int64_t before = (memory_.of(result) - region->begin) / static_cast<int64_t>(result.itemsize());
  if (!region->reads && gradient.strides() == result.strides() &&
      gradient.scalar_type() == result.scalar_type()) {
    region->gradient = gradient;
    region->start = gradient.storage_offset() - before;
    return;
  }
  const at::ScalarType dtype = region->reads ? sum_dtype(result.scalar_type()) : result.scalar_type();
  const int64_t elements = (region->end - region->begin) / static_cast<int64_t>(result.itemsize());
  region->gradient = at::zeros({elements}, result.options().dtype(dtype));
  region->adds = true;
  region->gradient.as_strided(result.sizes(), result.strides(), before).copy_(gradient);
}

at::Tensor ReverseRecord::view_of(const ReverseRegion& region, const ArrayArgument& array) const {
  const int64_t offset = (static_cast<char*>(array.data) - region.begin) / info(array.dtype).bytes;
  return region.gradient.as_strided(sizes_of(array), strides_of(array), region.start + offset);
}

// Finds memory for the gradient of a region of which an array is read.
void ReverseRecord::make_gradient(ReverseRegion& region, const ArrayArgument& array) {
  if (region.gradient.defined()) return;
  const at::ScalarType dtype = to_scalar_type(array.dtype);
  const bool once = region.reads == 1;
  if (const at::Tensor& base = region.argument, &target = region.target;
      target.defined() && target.strides() == base.strides() && target.scalar_type() == dtype &&
      (once || dtype == sum_dtype(dtype))) {
    // Otherwise the step writes every element.
    const bool whole = elements_of(array) == base.numel() && !overlaps_itself(strided_memory(array));
    if (!once || !whole) at::Tensor(target).zero_();
    region.gradient = target;
    region.start = target.storage_offset();
    region.adds = !once;
    return;
  }
  const at::Tensor& like = region.target;
  const bool rounds = like.defined() && once;
  const int64_t elements = (region.end - region.begin) / info(array.dtype).bytes;
  const auto options = at::TensorOptions().device(region.storage.device());
  region.gradient = at::zeros({elements}, options.dtype(rounds ? dtype : sum_dtype(dtype)));
  region.adds = !rounds;
}

bool ReverseRecord::is_read_later(size_t step) const {
  for (const ReverseAccess& written : steps_[step].accesses) {
    if (!written.stored && !written.added) continue;
    for (size_t later = step + 1; later < steps_.size(); ++later)
      for (const ReverseAccess& access : steps_[later].accesses)
        if (access.read && access.region == written.region) return true;
  }
  return false;
}

void ReverseRecord::compute_gradients() {
  for (size_t i = 0; i < steps_.size(); ++i)
    if (is_read_later(i)) run(steps_[i]);
  for (size_t i = steps_.size(); i-- > 0;)
    if (steps_[i].active) reverse(steps_[i]);
  for (ReverseRegion& region : regions_) {
    at::Tensor target = region.target;
    if (!target.defined()) continue;
    if (!region.gradient.defined())
      target.zero_();
    else if (!region.gradient.is_same(target))
      target.copy_(
          region.gradient.as_strided(region.argument.sizes(), region.argument.strides(), region.start));
  }
}

// A copy, or a step whose author knows the gradient.
void ReverseRecord::reverse(ReverseStep& step) {
  if (step.launch) return reverse_launch(step);
  const ReverseAccess* written = nullptr;
  std::vector<const ReverseAccess*> read;
  for (const ReverseAccess& access : step.accesses)
    if (access.stored)
      written = &access;
    else if (access.region->active)
      read.push_back(&access);
  if (!written || !written->region->gradient.defined() || read.empty()) return;
  at::Tensor incoming = view_of(*written->region, written->array);
  std::vector<at::Tensor> gradients;
  if (step.own) {
    std::vector<bool> wanted(step.own->read.size());
    for (const ReverseAccess* access : read) wanted[access->parameter] = true;
    if (const at::ScalarType own = step.own->written.scalar_type(); incoming.scalar_type() != own)
      incoming = at::empty(incoming.sizes(), incoming.options().dtype(own)).copy_(incoming);
    gradients = step.own->gradients(incoming, wanted);
  }
  for (const ReverseAccess* access : read) {
    make_gradient(*access->region, access->array);
    accumulate(view_of(*access->region, access->array), step.own ? gradients.at(access->parameter) : incoming,
               access->region->adds);
  }
}

void ReverseRecord::reverse_launch(ReverseStep& step) {
  RecordedLaunch& recorded = *step.launch;
  std::vector<Argument> arguments = recorded.arguments;
  for (const at::Tensor& each : step.saved.tiles) arguments.emplace_back(to_array_argument(each));
  GradientLaunch launch{tile::str(name_, ": ", recorded.name.name),
                        step.saved.kernel ? *step.saved.kernel : *recorded.kernel,
                        recorded.grid,
                        arguments,
                        {},
                        {},
                        {}};
  const auto among = [](const std::vector<size_t>& list, size_t parameter) {
    return std::find(list.begin(), list.end(), parameter) != list.end();
  };
  const Differentiable& parameters = recorded.kernel->parameters();
  std::vector<const ReverseAccess*> read;
  for (const ReverseAccess& access : step.accesses) {
    if (!access.region->active) continue;
    if (among(parameters.results, access.parameter) && access.region->gradient.defined()) {
      at::Tensor gradient = view_of(*access.region, access.array);
      if (const at::ScalarType own = to_scalar_type(access.array.dtype); gradient.scalar_type() != own)
        gradient = at::empty(gradient.sizes(), gradient.options().dtype(own)).copy_(gradient);
      launch.results.push_back(access.parameter);
      launch.incoming.push_back(std::move(gradient));
    } else if (among(parameters.inputs, access.parameter)) {
      read.push_back(&access);
    }
  }
  if (launch.results.empty() || read.empty()) return;
  for (const ReverseAccess* access : read) {
    make_gradient(*access->region, access->array);
    launch.targets.push_back(
        {access->parameter, view_of(*access->region, access->array), access->region->adds});
  }
  launch_gradients(launch);
}

}  // namespace tile
