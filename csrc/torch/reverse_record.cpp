// Records the launches of an operator's run, and refuses what it computes elsewhere.
#include "torch/reverse_record.h"

#include <ATen/record_function.h>

#include <algorithm>

#include "runtime/overlap.h"
#include "torch/args.h"
#include "torch/overlap.h"
#include "torch/record.h"
#include "torch/transparent.h"

namespace tile {
namespace {

bool has_gradient(DType dtype) { return is_floating(dtype) && info(dtype).bytes > 1; }
bool has_gradient(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type()) && tensor.itemsize() > 1;
}
bool is_empty(const ArrayArgument& array) {
  return std::find(array.sizes.begin(), array.sizes.begin() + array.rank, 0) !=
         array.sizes.begin() + array.rank;
}

}  // namespace

// The hooks into the thread's launches and the calls of torch.
class ReverseRecord::Recorder final : public LaunchRecord {
 public:
  explicit Recorder(ReverseRecord& record) : record_(record) {
    callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(see).needsInputs(true).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  }
  ~Recorder() override { at::removeCallback(callback_); }
  char* note(void* storage) override { return record_.note(static_cast<c10::StorageImpl*>(storage)); }
  void add(RecordedLaunch launch) override { record_.add_launch(std::move(launch)); }
  void require_no_error() const {
    if (!error_.empty()) fail(kind_, error_);
  }
  // Null while the record itself computes, and in a run that saves.
  static Recorder* of_thread() { return dynamic_cast<Recorder*>(Derivation::of_thread()); }

  ReverseRecord& record_;

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
    Recorder* const recorder = of_thread();
    if (!recorder || !recorder->error_.empty()) return nullptr;
    try {
      recorder->record_.see_call(function);
    } catch (const Error& error) {
      recorder->error_ = error.what();
      recorder->kind_ = error.kind();
    } catch (const std::exception& error) {
      recorder->error_ = error.what();
    }
    return nullptr;
  }
  at::CallbackHandle callback_;
  std::string error_;  // of a call of torch, which cannot raise it
  ErrorKind kind_ = ErrorKind::runtime;
};

ReverseRecord::ReverseRecord(const std::string& name)
    : name_(name), recorder_(std::make_unique<Recorder>(*this)) {}
ReverseRecord::~ReverseRecord() = default;

ReverseRecord* ReverseRecord::of_thread() {
  Recorder* const recorder = Recorder::of_thread();
  return recorder ? &recorder->record_ : nullptr;
}

void record_step(OwnGradient step) {
  ReverseRecord* const record = ReverseRecord::of_thread();
  TILE_CHECK(record, "No run is recorded");
  record->add_own(std::move(step));
}

void ReverseRecord::refuse(const std::string& text) const {
  fail(ErrorKind::unsupported, name_, ": run", text);
}

void ReverseRecord::add_argument(const at::Tensor& tensor, bool active) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return;
  if (char* const begin = memory_.of(tensor))
    regions_.push_back({tensor.storage(), begin, begin + span_of(tensor), tensor, active});
}
void ReverseRecord::add_result(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.numel()) note(tensor.storage().unsafeGetStorageImpl());
}

ReverseRegion* ReverseRecord::find(const void* data) {
  for (ReverseRegion& region : regions_)
    if (data >= region.begin && data < region.end) return &region;
  return nullptr;
}
ReverseRegion* ReverseRecord::region_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return nullptr;
  ReverseRegion* const region = find(memory_.of(tensor));
  // An emulation computes on a CPU in the memory of meta tensors.
  return region && region->storage.device() == tensor.device() ? region : nullptr;
}
bool ReverseRecord::is_active(const at::Tensor& tensor) {
  if (!has_gradient(tensor)) return false;
  const ReverseRegion* region = region_of(tensor);
  return region && region->active;
}

char* ReverseRecord::note(c10::StorageImpl* storage) {
  char* const begin = memory_.of(storage);
  if (!begin || !storage->nbytes()) return begin;
  for (const ReverseRegion& region : regions_)
    if (region.storage.unsafeGetStorageImpl() == storage) return begin;
  regions_.push_back({c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)), begin,
                      begin + storage->nbytes(), at::Tensor()});
  return begin;
}

void ReverseRecord::add_launch(RecordedLaunch launch) {
  ReverseStep step;
  const auto& uses = launch.kernel->uses();
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto* array = std::get_if<ArrayArgument>(&launch.arguments.at(i));
    if (!array || is_empty(*array) || (!uses[i].read && !uses[i].written())) continue;
    ReverseRegion* const region = find(array->data);
    if (!region)
      refuse(tile::str(
          " gives ", launch.name.name,
          " memory of which no tensor is known, so that its gradient is not derived; pass a tensor"));
    step.accesses.push_back({region, i, *array, uses[i].read, uses[i].stored, uses[i].added});
  }
  step.launch = std::move(launch);
  add(std::move(step));
}

std::optional<ReverseAccess> ReverseRecord::access_of(const at::Tensor& tensor, size_t index, bool written) {
  if (!tensor.defined() || tensor.numel() == 0) return std::nullopt;
  note(tensor.storage().unsafeGetStorageImpl());
  ArrayArgument array;
  array.data = memory_.of(tensor);
  array.dtype = to_dtype(tensor.scalar_type());
  array.rank = static_cast<int>(tensor.dim());
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), array.sizes.begin());
  std::copy(tensor.strides().begin(), tensor.strides().end(), array.strides.begin());
  ReverseRegion* const region = find(array.data);
  if (!region) return std::nullopt;
  return ReverseAccess{region, index, array, !written, written, false};
}

// Torch computes it at once.
void ReverseRecord::add_copy(const at::Tensor& to, const at::Tensor& from) {
  if (!has_gradient(to) || (!is_active(from) && !is_active(to))) return;
  ReverseStep step;
  step.done = true;
  if (auto access = access_of(to, 0, true)) step.accesses.push_back(*access);
  if (is_active(from))
    if (auto access = access_of(from, 1, false)) step.accesses.push_back(*access);
  add(std::move(step));
}

void ReverseRecord::add_own(OwnGradient own) {
  ReverseStep step;
  for (size_t i = 0; i < own.read.size(); ++i)
    if (auto access = access_of(own.read[i], i, false)) step.accesses.push_back(*access);
  if (auto access = access_of(own.written, own.read.size(), true)) step.accesses.push_back(*access);
  step.own = std::move(own);
  add(std::move(step));
}

void ReverseRecord::add(ReverseStep step) {
  for (const ReverseAccess& access : step.accesses)
    step.active |= access.read && has_gradient(access.array.dtype) && access.region->active;
  for (const ReverseAccess& access : step.accesses) {
    ReverseRegion& region = *access.region;
    const bool written = access.stored || access.added;
    if (written) region.pending |= !step.done;
    if (!step.active || !has_gradient(access.array.dtype)) continue;
    if (written) region.active = true;
    const at::ScalarType dtype = to_scalar_type(access.array.dtype);
    if (region.dtype && *region.dtype != dtype)
      refuse(tile::str(" uses memory of ", *region.dtype, " as ", dtype,
                       ", too, so that its gradient is not derived"));
    region.dtype = dtype;
    region.reads += access.read;
  }
  steps_.push_back(std::move(step));
}

void ReverseRecord::run(ReverseStep& step) {
  if (std::exchange(step.done, true)) return;
  const Derivation::Pause pause;
  std::vector<ArgumentRef> refs;
  if (step.own) {
    step.own->run();
  } else {
    for (const Argument& argument : step.launch->arguments)
      std::visit([&](const auto& each) { refs.emplace_back(each); }, argument);
    step.launch->run(refs);
  }
}
void ReverseRecord::run_pending() {
  for (ReverseStep& step : steps_) run(step);
  for (ReverseRegion& region : regions_) region.pending = false;
}

// Called before each operation of torch.
void ReverseRecord::see_call(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  if (!name || is_defined_here(name->name)) return;
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  bool active = false, pending = false;
  for (const c10::IValue& value : inputs)
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      active |= is_active(tensor);
      const ReverseRegion* region = region_of(tensor);
      pending |= region && region->pending;
    });
  const bool copies = name->name == "aten::copy_";
  if (!copies && is_transparent(*name, function)) return;
  if (pending) run_pending();
  if (copies) return add_copy(inputs[0].toTensor(), inputs[1].toTensor());
  if (!active) return;
  if (name->name == "aten::zero_" || name->name == "aten::fill_")
    return add_copy(inputs[0].toTensor(), at::Tensor());
  refuse(tile::str(
      " computes ", name->name,
      " outside of our kernels, so that its gradient is not derived; do it in a kernel, or write the "
      "gradient by hand"));
}

void ReverseRecord::finish() {
  recorder_->require_no_error();
  recorder_.reset();
  check_order();
}

// Derived kernels read again what the launches have read.
void ReverseRecord::check_order() const {
  const auto overlapping = [](const ReverseAccess& x, const ReverseAccess& y) {
    return x.region == y.region && overlap(strided_memory(x.array), strided_memory(y.array));
  };
  for (size_t j = 0; j < steps_.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      if (!steps_[i].active) continue;
      for (const ReverseAccess& before : steps_[i].accesses)
        for (const ReverseAccess& after : steps_[j].accesses) {
          const bool written = before.stored || before.added;
          if (before.read && (after.stored || after.added) && overlapping(before, after))
            refuse(tile::str("'s ", steps_[j].what(), " overwrites memory that ", steps_[i].what(),
                             " reads, so that its gradient is not derived; write to other memory"));
          if (written && after.stored && overlapping(before, after))
            refuse(
                tile::str("'s ", steps_[i].what(), " and ", steps_[j].what(),
                          " write the same memory, so that its gradient is not derived; write to different "
                          "memory"));
        }
    }
}

}  // namespace tile
