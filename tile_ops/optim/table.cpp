// The step on a CPU: one launch for all parameters, whose blocks read from a table where their elements are.
#include <cmath>

#include "step.h"

namespace tile::adamw {
namespace {

using std::optional;

// An address is counted in elements from the lowest of its list: high * span + low. The lists are arrays of
// [high, low, elements] that overlap themselves: they reach any address up to the highest.
constexpr int64_t span = int64_t{1} << 20;
constexpr int lists = 5, columns = 2 * lists + 1;

template <class Array, class Tile>
struct TableOf {
  Array params, grads, exp_avgs, exp_avg_sqs;
  optional<Array> max_exp_avg_sqs;
  Array addresses;  // of a block, high and low in each list, and its elements
  Array numbers;    // of a block, its -lr / (1 - beta1^step) and 1 / sqrt(1 - beta2^step)
  Tile decay, change1, keep2, change2, eps, grad_factor;  // as Coefficients
  int size;
};
void adamw_kernel(const TableOf<Array, Tile>& of) {
  const auto& [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, addresses, numbers, decay, change1,
               keep2, change2, eps, grad_factor, size] = of;
  const auto from = [&](Array table, int column) {
    return table[{bid(0)}].tiled_view({1}).load({column}).reshape({});
  };
  Tile elements = from(addresses, 2 * lists);
  const auto here = [&](Array list, int which) {
    return list[{from(addresses, 2 * which), from(addresses, 2 * which + 1)}].slice(0, 0, elements);
  };
  const auto narrow = [&](const Tile& value) { return value.astype(compute_dtype(params.dtype())); };
  const Array param = here(params, 0), grad = here(grads, 1), mean = here(exp_avgs, 2),
              square = here(exp_avg_sqs, 3);
  const auto most = max_exp_avg_sqs ? optional(here(*max_exp_avg_sqs, 4)) : std::nullopt;
  const Coefficients c{narrow(from(numbers, 0)),
                       narrow(from(numbers, 1)),
                       narrow(decay),
                       narrow(change1),
                       narrow(keep2),
                       narrow(change2),
                       narrow(eps),
                       narrow(grad_factor)};
  // One iteration: a separate region, so that its steps become one pass.
  for (Tile k : range(cdiv(elements, size).astype(i32))) update(param, grad, mean, square, most, k, size, c);
}
Kernel adamw_of_all("adamw", adamw_kernel);

double value_of(const ArrayArgument& number) {
  return number.dtype == DType::f64 ? *static_cast<const double*>(number.data)
                                    : *static_cast<const float*>(number.data);
}

int64_t elements_between(const ArrayArgument& from, const void* to) {
  return (static_cast<const char*>(to) - static_cast<const char*>(from.data)) / info(from.dtype).bytes;
}

// A table as an argument.
template <class T>
ArrayArgument table(std::vector<T>& rows, int64_t width, DType dtype) {
  ArrayArgument array;
  array.data = rows.data();
  array.dtype = dtype;
  array.rank = 2;
  array.sizes[0] = static_cast<int64_t>(rows.size()) / width, array.sizes[1] = width;
  array.strides[0] = width, array.strides[1] = 1;
  return array;
}

}  // namespace

void launch_table(const std::vector<Job>& jobs, bool amsgrad, const Options& options) {
  const auto read = [](const optional<at::Tensor>& t, double otherwise) {
    return t ? value_of(number(*t)) : otherwise;
  };
  if (read(options.found_inf, 0) != 0) return;
  const double lr = read(options.lr_tensor, options.lr),
               grad_factor = (options.maximize ? -1 : 1) / read(options.grad_scale, 1);
  constexpr int size = 32768;
  const size_t count = amsgrad ? lists : lists - 1;
  std::array<ArrayArgument, lists> whole;
  for (size_t k = 0; k < count; ++k) {
    whole[k] = jobs[0].arrays[k];
    void* highest = whole[k].data;
    for (const Job& job : jobs) {
      whole[k].data = std::min(whole[k].data, job.arrays[k].data);
      highest = std::max(highest, static_cast<void*>(static_cast<char*>(job.arrays[k].data) +
                                                     job.elements * info(job.arrays[k].dtype).bytes));
    }
    whole[k].rank = 3;
    whole[k].sizes[0] = elements_between(whole[k], highest) / span + 1;
    whole[k].sizes[1] = span, whole[k].sizes[2] = size;
    whole[k].strides[0] = span, whole[k].strides[1] = whole[k].strides[2] = 1;
  }
  std::vector<int64_t> addresses;
  std::vector<double> numbers;
  for (const Job& job : jobs) {
    const double step = value_of(job.step), along = lr / std::expm1(step * std::log(options.beta1)),
                 down = 1 / std::sqrt(-std::expm1(step * std::log(options.beta2)));
    std::array<int64_t, lists> begin{};
    for (size_t k = 0; k < count; ++k) begin[k] = elements_between(whole[k], job.arrays[k].data);
    for (int64_t from = 0; from < job.elements; from += size) {
      for (const int64_t address : begin) {
        addresses.push_back((address + from) / span);
        addresses.push_back((address + from) % span);
      }
      addresses.push_back(std::min<int64_t>(size, job.elements - from));
      numbers.push_back(along);
      numbers.push_back(down);
    }
  }
  adamw_of_all.launch({static_cast<int64_t>(numbers.size()) / 2},
                      {.params = whole[0],
                       .grads = whole[1],
                       .exp_avgs = whole[2],
                       .exp_avg_sqs = whole[3],
                       .max_exp_avg_sqs = amsgrad ? optional(whole[4]) : std::nullopt,
                       .addresses = table(addresses, columns, DType::i64),
                       .numbers = table(numbers, 2, DType::f64),
                       .decay = -lr * options.weight_decay,
                       .change1 = 1 - options.beta1,
                       .keep2 = options.beta2,
                       .change2 = 1 - options.beta2,
                       .eps = options.eps,
                       .grad_factor = grad_factor,
                       .size = size});
}

}  // namespace tile::adamw
