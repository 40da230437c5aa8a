// tile::adamw_: the step of AdamW for many tensors.
#include <algorithm>
#include <map>

#include "../common/overlap.h"
#include "step.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;         // NOLINT: an operator's file is written in the kernel language
using namespace tile::adamw;  // NOLINT

// The lists of a call, in the order of the schema; the last is there where AMSGrad is wanted.
struct Lists {
  at::TensorList params, grads, exp_avgs, exp_avg_sqs, steps;
  const optional<std::vector<Tensor>>& max_exp_avg_sqs;
};

std::string element(const char* list, size_t i) { return str(list, "[", i, "]"); }

void require_one_dtype(const char* name, at::TensorList list) {
  for (size_t i = 1; i < list.size(); ++i)
    if (list[i].scalar_type() != list[0].scalar_type())
      fail(ErrorKind::type, name, "[0] is ", dtype_name(list[0].scalar_type()), " and ", element(name, i),
           " ", dtype_name(list[i].scalar_type()), "; pass tensors of each dtype in a call of their own");
}

void require_dense(const std::string& name, const Tensor& tensor) {
  if (tensor.is_nested()) fail(ErrorKind::type, name, " is a nested tensor; pass dense ones");
}

void require_number(const std::string& name, const Tensor& tensor, bool wide) {
  require_dense(name, tensor);
  if (tensor.scalar_type() != at::kFloat && !(wide && tensor.scalar_type() == at::kDouble))
    fail(ErrorKind::type, name, " is ", dtype_name(tensor.scalar_type()), "; it must be float32",
         wide ? " or float64" : "");
  if (tensor.sym_numel() != 1)
    fail(ErrorKind::value, name, " has shape ", tensor.sym_sizes(), "; it must have one element");
}

void check(const Lists& lists, const Options& options) {
  const at::TensorList params = lists.params;
  std::vector<std::pair<const char*, at::TensorList>> others{
      {"grads", lists.grads}, {"exp_avgs", lists.exp_avgs}, {"exp_avg_sqs", lists.exp_avg_sqs}};
  if (lists.max_exp_avg_sqs) others.emplace_back("max_exp_avg_sqs", *lists.max_exp_avg_sqs);
  others.emplace_back("steps", lists.steps);
  for (const auto& [name, list] : others)
    if (list.size() != params.size())
      fail(ErrorKind::value, "params has ", params.size(), " tensors and ", name, " ", list.size(),
           "; pass one for each parameter");
  for (const auto& [name, value] : {std::pair("lr", options.lr), std::pair("eps", options.eps),
                                    std::pair("weight_decay", options.weight_decay)})
    if (!(value >= 0)) fail(ErrorKind::value, name, " is ", value, "; it must be 0 or more");
  for (const auto& [name, value] : {std::pair("beta1", options.beta1), std::pair("beta2", options.beta2)})
    if (!(value >= 0 && value < 1))
      fail(ErrorKind::value, name, " is ", value, "; it must be at least 0 and less than 1");
  if (options.lr_tensor) require_number("lr_tensor", *options.lr_tensor, true);
  if (options.grad_scale) require_number("grad_scale", *options.grad_scale, false);
  if (options.found_inf) require_number("found_inf", *options.found_inf, false);
  if (params.empty()) return;
  for (size_t i = 0; i < params.size(); ++i) require_dense(element("params", i), params[i]);
  require_floating("params[0]", params[0]);
  require_one_dtype("params", params);
  const at::ScalarType dtype = params[0].scalar_type();
  for (size_t i = 0; i < params.size(); ++i) require_number(element("steps", i), lists.steps[i], true);
  require_one_dtype("steps", lists.steps);
  others.pop_back();
  for (const auto& [name, list] : others) {
    require_one_dtype(name, list);
    const at::ScalarType own = list[0].scalar_type();
    if (own != dtype && own != compute_dtype(dtype))
      fail(ErrorKind::type, name, "[0] is ", dtype_name(own), " and params[0] ", dtype_name(dtype),
           "; it must be ", dtype_name(dtype), dtype == compute_dtype(dtype) ? "" : " or float32");
    for (size_t i = 0; i < list.size(); ++i) require_dense(element(name, i), list[i]);
    for (size_t i = 0; i < list.size(); ++i)
      if (!list[i].sym_sizes().equals(params[i].sym_sizes()))
        fail(ErrorKind::value, element(name, i), " has shape ", list[i].sym_sizes(), " and ",
             element("params", i), " ", params[i].sym_sizes(), "; they must be alike");
  }
}

// Written tensors may not share a byte with others. Tensors whose byte ranges are disjoint do not.
void require_apart(const Lists& lists) {
  struct Range {
    uintptr_t begin, end;
    const char* list;
    size_t index;
    const Tensor* tensor;
    bool written;
  };
  std::vector<Range> ranges;
  ranges.reserve(lists.params.size() * 5);
  const auto add = [&](const char* name, at::TensorList list, bool written) {
    for (size_t i = 0; i < list.size(); ++i) {
      const Tensor& t = list[i];
      if (t.numel() == 0) continue;
      if (written && !t.is_non_overlapping_and_dense()) require_no_overlap(element(name, i), t);
      int64_t last = 1;
      for (int64_t axis = 0; axis < t.dim(); ++axis) last += t.stride(axis) * (t.size(axis) - 1);
      // overlap() distinguishes the storages of meta tensors.
      const auto begin = t.is_meta() ? 0 : reinterpret_cast<uintptr_t>(t.const_data_ptr());
      const auto bytes = static_cast<uintptr_t>(last) * t.itemsize();
      ranges.push_back({begin, begin + bytes, name, i, &t, written});
    }
  };
  add("params", lists.params, true);
  add("grads", lists.grads, false);
  add("exp_avgs", lists.exp_avgs, true);
  add("exp_avg_sqs", lists.exp_avg_sqs, true);
  if (lists.max_exp_avg_sqs) add("max_exp_avg_sqs", *lists.max_exp_avg_sqs, true);
  add("steps", lists.steps, false);
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < ranges.size(); ++i)
    for (size_t j = i + 1; j < ranges.size() && ranges[j].begin < ranges[i].end; ++j)
      if (ranges[i].written || ranges[j].written)
        require_no_overlap(element(ranges[i].list, ranges[i].index), *ranges[i].tensor,
                           element(ranges[j].list, ranges[j].index), *ranges[j].tensor);
}

bool dense_alike(const Tensor& t, const Tensor& like) {
  for (int64_t axis = 0; axis < t.dim(); ++axis)
    if (t.size(axis) != 1 && t.stride(axis) != like.stride(axis)) return false;
  return true;
}

// The arrays of all parameters, on a GPU by what a key says of them: a group is of one kind, so that kernels
// are few. What does not lie as the parameter does is copied, and what was written copied back.
class Jobs {
 public:
  explicit Jobs(const Lists& lists) {
    for (size_t i = 0; i < lists.params.size(); ++i)
      if (lists.params[i].numel()) add(lists, i);
  }
  Jobs(const Jobs&) = delete;

  const std::map<uint64_t, std::vector<Job>>& of_kinds() const { return jobs_; }
  void copy_back() const {
    for (const auto& [to, from] : written_) to.copy_(from);
  }

 private:
  void add(const Lists& lists, size_t i) {
    const Tensor& p = lists.params[i];
    Tensor pattern = p;
    if (!p.is_non_overlapping_and_dense()) pattern = at::empty(p.sizes(), p.options());
    const auto flat = [&](const Tensor& t, bool written) {
      if (t.is_same(pattern) || dense_alike(t, pattern)) return strided(t, {t.numel()}, {1});
      const Tensor copy = kept_.emplace_back(at::empty_strided(t.sizes(), pattern.strides(), t.options()));
      copy.copy_(t);
      if (written) written_.emplace_back(t, copy);
      return strided(copy, {t.numel()}, {1});
    };
    Job job;
    job.elements = p.numel();
    job.arrays = {flat(p, true), flat(lists.grads[i], false), flat(lists.exp_avgs[i], true),
                  flat(lists.exp_avg_sqs[i], true)};
    if (lists.max_exp_avg_sqs) job.arrays[4] = flat((*lists.max_exp_avg_sqs)[i], true);
    job.step = number(lists.steps[i]);
    jobs_[kind(job, lists.max_exp_avg_sqs ? 5 : 4)].push_back(job);
  }

  // Marks arrays of which not all begin where vectors do, so that the kernel uses none.
  static uint64_t kind(Job& job, size_t count) {
    if (job.step.device == DeviceKind::cpu) return 0;
    const auto bytes = [](const ArrayArgument& array) {
      return static_cast<uint64_t>(info(array.dtype).bytes);
    };
    bool aligned = true;
    uint64_t kind = 0;
    for (size_t k = 0; k < count; ++k) {
      const ArrayArgument& array = job.arrays[k];
      aligned &= reinterpret_cast<uintptr_t>(array.data) % 16 == 0;
      const uint64_t all = static_cast<uint64_t>(job.elements) * bytes(array);
      kind = kind * 4 + (all % 16 == 0) * 2 + (job.elements >> 29 == 0);
    }
    if (aligned) return kind * 2 + 1;
    for (size_t k = 0; k < count; ++k) job.arrays[k].scalars = true;
    return job.elements >> 29 == 0 ? 0 : 2;
  }

  std::map<uint64_t, std::vector<Job>> jobs_;
  std::vector<Tensor> kept_;
  std::vector<std::pair<Tensor, Tensor>> written_;
};

// Misaligned elements: the launch of a group reports them.
bool misplaced(const Job& job, size_t count) {
  return std::any_of(
      job.arrays.begin(), job.arrays.begin() + static_cast<int64_t>(count), [](const auto& array) {
        return reinterpret_cast<uintptr_t>(array.data) % static_cast<uintptr_t>(info(array.dtype).bytes) != 0;
      });
}

void step(const Lists& lists, const Options& options) {
  require_apart(lists);
  const bool amsgrad = lists.max_exp_avg_sqs.has_value();
  const Jobs all(lists);
  for (const auto& [kind, jobs] : all.of_kinds()) {
    const bool cpu = jobs[0].step.device == DeviceKind::cpu &&
                     std::none_of(jobs.begin(), jobs.end(),
                                  [&](const Job& job) { return misplaced(job, amsgrad ? 5 : 4); });
    cpu ? launch_table(jobs, amsgrad, options) : launch_groups(jobs, amsgrad, options);
  }
  all.copy_back();
}

const auto adamw_in_place =
    op("tile::adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
       "Tensor[] steps, *, Tensor(d!)[]? max_exp_avg_sqs=None, float lr=0.001, float beta1=0.9, float "
       "beta2=0.999, "
       "float eps=1e-08, float weight_decay=0.01, bool maximize=False, Tensor? lr_tensor=None, Tensor? "
       "grad_scale=None, Tensor? found_inf=None) -> ()")
        .outputs([](const Lists& lists, const Options& options) { check(lists, options); })
        .run([](const Lists& lists, const Options& options) { step(lists, options); });

}  // namespace
