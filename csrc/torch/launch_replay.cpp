// Goes backwards over the launches of a run. The gradient of a piece of memory is memory, too, so that views
// of one give views of the other.
#include "torch/launch_replay.h"

#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>

#include "torch/args.h"
#include "torch/overlap.h"
#include "torch/saved_bytes.h"
#include "torch/storage_memory.h"

namespace tile {
namespace {

constexpr size_t no_memory = ~size_t{0};

at::ScalarType sum_dtype(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}
// The number of elements from the first to the last in memory.
int64_t span_in_elements(const at::Tensor& tensor) {
  return span_of(tensor) / static_cast<int64_t>(tensor.itemsize());
}

int64_t elements_of_storage(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
}

// The memory of one storage, and its gradient: elements of `gradient` from `start` on correspond to those
// from `offset` on.
struct Memory {
  const c10::StorageImpl* storage;
  at::Tensor argument = {}, target = {};
  bool known = false;   // of an argument or a result
  bool active = false;  // depends on what is differentiated by
  int reads = 0;        // as an input of launches
  at::Tensor gradient = {};
  at::ScalarType dtype = at::kFloat;
  int64_t offset = 0, start = 0;
  bool adds = false;    // the gradient holds something, to which launches add
  bool copied = false;  // into the target, at the end

  at::Tensor view(const at::Tensor& like) const {
    if (like.scalar_type() != dtype)
      fail(ErrorKind::unsupported, "memory of torch.", c10::getDtypeNames(dtype).first,
           " is also used as torch.", c10::getDtypeNames(like.scalar_type()).first,
           ", so that its gradient is not derived");
    const int64_t first = like.storage_offset() - offset + start;
    if (gradient.sizes() == like.sizes() && gradient.strides() == like.strides() &&
        gradient.storage_offset() == first)
      return gradient;
    return gradient.as_strided(like.sizes(), like.strides(), first);
  }
};

class Replayer {
 public:
  explicit Replayer(const Replay& replay) : replay_(replay), saved_(replay.launches.size()) {
    for (const auto* list : {&replay.arguments, &replay.results})
      for (const at::Tensor& each : *list)
        if (each.defined()) memories_[memory_of(each)].known = true;
    for (const ReplayedLaunch& launch : replay.launches) {
      std::vector<size_t>& places = places_.emplace_back();
      for (const at::Tensor& each : launch.tensors)
        places.push_back(each.defined() ? memory_of(each) : no_memory);
    }
  }

  void check() const {
    check_order();
    check_memory();
  }

  std::vector<std::shared_ptr<ReverseKernel>> run() {
    use_saved();
    for (size_t i = 0; i < replay_.arguments.size(); ++i)
      if (replay_.targets.at(i).defined()) {
        Memory& memory = memories_[memory_of(replay_.arguments[i])];
        memory.argument = replay_.arguments[i], memory.target = replay_.targets[i], memory.active = true;
      }
    find_active();
    for (size_t i = 0; i < replay_.results.size(); ++i)
      if (replay_.incoming.at(i).defined()) add_incoming(replay_.results[i], replay_.incoming[i]);
    for (size_t i = 0; i < replay_.launches.size(); ++i)
      if (is_read_later(i)) replay_.launches[i].run();
    for (size_t i = replay_.launches.size(); i-- > 0;) reverse(i);
    for (const Memory& memory : memories_) {
      at::Tensor target = memory.target;
      if (!target.defined()) continue;
      if (!memory.gradient.defined())
        target.zero_();
      else if (memory.copied)
        target.copy_(memory.view(memory.argument));
    }
    return std::move(kernels_);
  }

 private:
  size_t memory_of(const at::Tensor& tensor) {
    const c10::StorageImpl* const storage = storage_of(tensor);
    for (size_t i = 0; i < memories_.size(); ++i)
      if (memories_[i].storage == storage) return i;
    memories_.push_back({storage});
    return memories_.size() - 1;
  }
  Memory& memory_at(size_t launch, size_t parameter) { return memories_[places_[launch][parameter]]; }
  const Differentiable& differentiable(size_t launch) const {
    return replay_.launches[launch].kernel->parameters();
  }
  template <class... Text>
  [[noreturn]] void refuse(const Text&... text) const {
    fail(ErrorKind::unsupported, replay_.name, ": run", text...);
  }

  // Calls f(tensor, use, place) for each array of a launch; returns true at the first call that does.
  template <class F>
  bool any_array(size_t launch, F f) const {
    const auto& uses = replay_.launches[launch].kernel->uses();
    for (size_t i = 0; i < places_[launch].size(); ++i)
      if (places_[launch][i] != no_memory &&
          f(replay_.launches[launch].tensors[i], uses[i], places_[launch][i]))
        return true;
    return false;
  }

  // A launch may not change what an earlier one, or itself, has used.
  void check_order() const {
    const auto overlapping = [&](size_t first, size_t second, const auto& pair) {
      return any_array(first, [&](const at::Tensor& x, const ReverseKernel::Use& of_x, size_t place_of_x) {
        return any_array(second, [&](const at::Tensor& y, const ReverseKernel::Use& of_y, size_t place_of_y) {
          return place_of_x == place_of_y && pair(of_x, of_y) && (x.is_same(y) || overlap(x, y));
        });
      });
    };
    using Use = ReverseKernel::Use;
    for (size_t later = 0; later < places_.size(); ++later)
      for (size_t earlier = 0; earlier <= later; ++earlier) {
        const std::string &before = replay_.launches[earlier].name, &after = replay_.launches[later].name;
        if (overlapping(earlier, later, [](const Use& x, const Use& y) { return x.read && y.written(); }))
          refuse("'s launch of ", after, " overwrites memory that ", before,
                 " reads, so that its gradient is not derived; write to other memory");
        if (earlier != later &&
            overlapping(earlier, later, [](const Use& x, const Use& y) { return x.written() && y.stored; }))
          refuse("'s launches of ", before, " and ", after,
                 " write the same memory, so that its gradient is not derived; write to different memory");
      }
  }

  // A storage of its own may be the same memory, as that of an array of NumPy is.
  void check_memory() const {
    const auto begin_of = [](const Memory& memory) {
      return static_cast<const char*>(memory.storage->data());
    };
    for (size_t i = 0; i < places_.size(); ++i)
      any_array(i, [&](const at::Tensor&, const ReverseKernel::Use&, size_t place) {
        const Memory& own = memories_[place];
        if (own.known || !begin_of(own)) return false;  // meta tensors have no memory
        for (const Memory& other : memories_)
          if (other.known && begin_of(own) < begin_of(other) + other.storage->nbytes() &&
              begin_of(other) < begin_of(own) + own.storage->nbytes())
            refuse(" gives ", replay_.launches[i].name,
                   " memory of a tensor as another object, so that its gradient is not derived; pass the "
                   "tensor, or a view of it");
        return false;
      });
  }

  // The forward has chosen tiles for gradients of all arguments.
  void use_saved() {
    if (!replay_.saved.defined() || !replay_.saved.numel()) return;
    SavedBytes bytes;
    std::vector<bool> active(memories_.size());
    for (const at::Tensor& each : replay_.arguments)
      if (each.defined() && each.is_floating_point()) active[memory_of(each)] = true;
    for (size_t i = 0; i < places_.size(); ++i) {
      const ReplayedLaunch& launch = replay_.launches[i];
      const auto& [inputs, results] = differentiable(i);
      if (std::none_of(inputs.begin(), inputs.end(), [&](size_t each) { return active[places_[i][each]]; })) {
        bytes.skip();
        continue;
      }
      for (const size_t each : results) active[places_[i][each]] = true;
      bytes.add(*launch.kernel, launch.grid, launch.arguments);
    }
    if (!bytes.fits(replay_.saved)) return;
    for (size_t i = 0; i < saved_.size(); ++i)
      if (const SavedBytes::Launch& each = bytes.launches()[i]; each.kernel)
        saved_[i] = {each.kernel, each.views(replay_.saved)};
  }

  void find_active() {
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto& [inputs, results] = differentiable(i);
      const bool active =
          std::any_of(inputs.begin(), inputs.end(), [&](size_t each) { return memory_at(i, each).active; });
      for (const size_t each : results)
        if (active) memory_at(i, each).active = true;
      for (const size_t each : inputs) ++memory_at(i, each).reads;
    }
  }

  void add_incoming(const at::Tensor& result, at::Tensor gradient) {
    gradient = gradient.to(result.scalar_type());
    Memory& memory = memories_[memory_of(result)];
    if (memory.gradient.defined()) {
      accumulate(memory.view(result), gradient, true);
      return;
    }
    const bool alone =
        1 == std::count_if(replay_.results.begin(), replay_.results.end(), [&](const at::Tensor& each) {
          return each.defined() && storage_of(each) == memory.storage;
        });
    memory.dtype = result.scalar_type();
    memory.offset = alone ? result.storage_offset() : 0;
    memory.adds = true;
    if (alone && !memory.reads && gradient.strides() == result.strides()) {
      memory.start = gradient.storage_offset();
      memory.gradient = std::move(gradient);
      return;
    }
    const at::ScalarType dtype = memory.reads ? sum_dtype(memory.dtype) : memory.dtype;
    memory.start = 0;
    memory.gradient = at::zeros({alone ? span_in_elements(result) : elements_of_storage(result)},
                                result.options().dtype(dtype));
    memory.view(result).copy_(gradient);
  }

  bool is_read_later(size_t launch) const {
    return any_array(launch, [&](const at::Tensor&, const ReverseKernel::Use& use, size_t place) {
      for (size_t later = launch + 1; use.written() && later < places_.size(); ++later)
        if (any_array(later, [&](const at::Tensor&, const ReverseKernel::Use& other, size_t at) {
              return other.read && at == place;
            }))
          return true;
      return false;
    });
  }

  // Finds memory for the gradient of an array that a launch reads.
  void make_gradient(Memory& memory, const at::Tensor& tensor) {
    if (memory.gradient.defined()) return;
    memory.start = 0;
    const at::Tensor& base = memory.argument;
    if (!memory.target.defined()) {  // scratch
      memory.dtype = tensor.scalar_type();
      memory.offset = 0;
      memory.adds = true;
      memory.gradient =
          at::zeros({elements_of_storage(tensor)}, tensor.options().dtype(sum_dtype(memory.dtype)));
      return;
    }
    const bool once = memory.reads == 1;
    memory.dtype = base.scalar_type();
    memory.offset = base.storage_offset();
    memory.adds = !once;
    const at::ScalarType own = memory.target.scalar_type();
    if (memory.target.strides() == base.strides() && (once || own == sum_dtype(own))) {
      const bool whole = tensor.numel() == base.numel() && !overlaps_itself(tensor);
      if (!once || !whole) memory.target.zero_();  // otherwise the launch writes every element
      memory.gradient = memory.target;
      memory.start = memory.target.storage_offset();
      return;
    }
    memory.gradient = at::zeros({span_in_elements(base)},
                                base.options().dtype(once ? memory.dtype : sum_dtype(memory.dtype)));
    memory.copied = true;
  }

  void reverse(size_t i) {
    const ReplayedLaunch& launch = replay_.launches[i];
    const SavedLaunch& saved = saved_[i];
    const auto& [inputs, results] = differentiable(i);
    std::vector<Argument> with_saved;
    if (saved.kernel) {
      with_saved = launch.arguments;
      for (const at::Tensor& each : saved.tiles) with_saved.emplace_back(to_array_argument(each));
    }
    GradientLaunch made{str(replay_.name, ": ", launch.name),
                        saved.kernel ? *saved.kernel : *launch.kernel,
                        launch.grid,
                        saved.kernel ? with_saved : launch.arguments,
                        {},
                        {},
                        {},
                        replay_.way};
    for (const size_t each : results) {
      const Memory& memory = memory_at(i, each);
      if (!memory.active || !memory.gradient.defined()) continue;
      made.results.push_back(each);
      made.incoming.push_back(memory.view(launch.tensors[each]).to(launch.tensors[each].scalar_type()));
    }
    if (made.results.empty()) return;
    for (const size_t each : inputs) {
      Memory& memory = memory_at(i, each);
      if (!memory.active) continue;
      make_gradient(memory, launch.tensors[each]);
      made.targets.push_back({each, memory.view(launch.tensors[each]), memory.adds});
    }
    if (made.targets.empty()) return;
    kernels_.push_back(saved.kernel ? saved.kernel : launch.kernel);
    launch_gradients(made);
  }

  const Replay& replay_;
  std::vector<Memory> memories_;
  std::vector<std::vector<size_t>> places_;  // of each launch, for each argument the number of its memory
  std::vector<SavedLaunch> saved_;           // by the forward
  std::vector<std::shared_ptr<ReverseKernel>> kernels_;
};

}  // namespace

std::vector<std::shared_ptr<ReverseKernel>> replay_gradients(const Replay& replay) {
  Replayer replayer(replay);
  replayer.check();
  return replayer.run();
}

std::vector<at::Tensor> with_own_memory(std::vector<at::Tensor> tensors) {
  std::vector<const c10::StorageImpl*> seen;
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const bool shares = std::find(seen.begin(), seen.end(), storage_of(tensor)) != seen.end();
    if (shares || overlaps_itself(tensor)) tensor = tensor.clone(at::MemoryFormat::Contiguous);
    seen.push_back(storage_of(tensor));
  }
  return tensors;
}

}  // namespace tile
