// The record of an operator's run for reverse mode: its launches, the copies of torch between them, and the
// memory that they access.
#pragma once
#include <ATen/core/Tensor.h>

#include <list>
#include <optional>

#include "runtime/launch_record.h"
#include "runtime/reverse_kernel.h"
#include "torch/own_gradient.h"
#include "torch/saving_run.h"
#include "torch/storage_memory.h"

namespace at {
struct RecordFunction;
}

namespace tile {

// A piece of memory that run accesses.
struct ReverseRegion {
  c10::Storage storage;  // kept, so that no other memory gets its addresses
  char *begin, *end;
  at::Tensor argument;   // that the region belongs to; undefined: run has allocated it, or it is a result
  bool active = false;   // depends on what is differentiated by
  bool pending = false;  // a launch that has not run yet writes it
  std::optional<at::ScalarType> dtype = std::nullopt;
  int reads = 0;  // by active steps
  // Its gradient: elements of `gradient` from `start` on correspond to those from `begin` on. `adds`: it
  // holds something.
  at::Tensor gradient = {}, target = {};
  int64_t start = 0;
  bool adds = false;
};

// One array that a step accesses.
struct ReverseAccess {
  ReverseRegion* region;
  size_t parameter;  // of a launch, or the index among what is read
  ArrayArgument array;
  bool read, stored, added;
};

struct ReverseStep {
  std::optional<RecordedLaunch> launch;  // otherwise a copy, or what its author knows
  std::optional<OwnGradient> own;
  SavedLaunch saved = {};  // by the forward
  bool active = false, done = false;
  std::vector<ReverseAccess> accesses;
  const char* what() const { return launch ? launch->name.name.c_str() : own ? own->name.c_str() : "copy_"; }
};

// Records while it is the thread's derivation, until finish().
class ReverseRecord {
 public:
  explicit ReverseRecord(const std::string& name);
  ~ReverseRecord();

  // An argument of run. `active`: it is differentiated by, or holds what is.
  void add_argument(const at::Tensor& tensor, bool active);
  void add_result(const at::Tensor& tensor);
  // Ends the record; throws an error for what cannot be differentiated.
  void finish();

  // Gives the tiles that the launches saved in the forward. Other launches than those do not use them.
  void use_saved(const std::vector<at::Tensor>& saved);

  // Fills `target`, of the argument's shape, with its gradient.
  void set_target(const at::Tensor& argument, const at::Tensor& target);
  void set_incoming(const at::Tensor& result, const at::Tensor& gradient);
  void compute_gradients();

  // Returns that of a run on this thread; null if there is none.
  static ReverseRecord* of_thread();
  void add_own(OwnGradient step);

 private:
  class Recorder;
  ReverseRegion* find(const void* data);
  ReverseRegion* region_of(const at::Tensor& tensor);
  ReverseRegion& add_storage(const c10::Storage& storage, char* begin);
  char* note(c10::StorageImpl* storage);
  void add_launch(RecordedLaunch launch);
  void add_copy(const at::Tensor& to, const at::Tensor& from);
  void see_call(const at::RecordFunction& function);
  bool is_active(const at::Tensor& tensor);
  void add(ReverseStep step);
  void run(ReverseStep& step);
  void run_pending();
  void check_order() const;
  [[noreturn]] void refuse(const std::string& text) const;

  std::optional<ReverseAccess> access_of(const at::Tensor& tensor, size_t index, bool written);
  bool is_read_later(size_t step) const;
  void reverse(ReverseStep& step);
  void reverse_launch(ReverseStep& step);
  at::Tensor view_of(const ReverseRegion& region, const ArrayArgument& array) const;
  void make_gradient(ReverseRegion& region, const ArrayArgument& array);

  const std::string& name_;
  std::unique_ptr<Recorder> recorder_;
  std::list<ReverseRegion> regions_;
  std::vector<ReverseStep> steps_;
  StorageMemory memory_;
};

}  // namespace tile
