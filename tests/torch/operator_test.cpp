// Tests operators in a program without Python: calls, torch's exception classes, arguments of a launch,
// threads.
#include "tile/op.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "cpu/exec/parallel.h"
#include "driver/assert_buffer.h"

namespace {

using at::Tensor;

const auto twice =
    tile::op("tcpp::twice(Tensor input, float factor=2.0, str kind=\"\") -> Tensor")
        .outputs([](const Tensor& input, double, std::string_view) { return at::empty_like(input); })
        .run([](const Tensor& input, double factor, const std::string& kind, Tensor& out) {
          if (kind == "value") tile::fail(tile::ErrorKind::value, "a value; change it");
          if (kind == "type") tile::fail(tile::ErrorKind::type, "a type; change it");
          if (kind == "unsupported") tile::fail(tile::ErrorKind::unsupported, "not there; leave it");
          if (kind == "earlier") throw tile::FailedAssertions("check.cpp:7: assertion failed");
          if (kind == "runtime") tile::fail(tile::ErrorKind::runtime, "broken; mend it");
          for (int64_t i = 0; i < input.numel(); ++i)
            out.data_ptr<float>()[i] = static_cast<float>(input.data_ptr<float>()[i] * factor);
        })
        .grad("tcpp::twice_backward");
const auto twice_backward =
    tile::op("tcpp::twice_backward(Tensor grad_out, float factor) -> Tensor grad_input")
        .outputs([](const Tensor& grad, double) {
          return at::empty_strided(grad.sizes(), grad.strides(), grad.options());
        })
        .run([](const Tensor& grad, double factor, Tensor& out) { out.fill_(factor * grad.item<double>()); });

Tensor ones() {
  Tensor tensor = at::empty({2, 3});
  tensor.fill_(1);
  return tensor;
}

template <class E>
std::string error_of(const char* kind) {
  try {
    twice.call(ones(), 2.0, kind);
  } catch (const E& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(Operator, CallsThroughTheDispatcherWithDefaults) {
  EXPECT_EQ(twice.call(ones()).sum().item<float>(), 12);
  EXPECT_EQ(twice.call(ones(), 5).sum().item<float>(), 30);
  EXPECT_EQ(twice.name(), "tcpp::twice");
  EXPECT_NO_THROW(twice.check());
}

TEST(Operator, ACallNamesAsManyResultsAsThereAre) {
  static const auto pair =
      tile::op("tcpp::pair(Tensor x) -> (Tensor a, Tensor b)")
          .outputs([](const Tensor& x) { return std::tuple(at::empty_like(x), x.clone()); })
          .run([](const Tensor& x, Tensor& a, Tensor&) { a.copy_(x); });
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(error_of([] { pair.call(ones()); }),
            "tcpp::pair: has 2 results, and call() gives one; name their types: call<std::tuple<…>>");
  EXPECT_EQ(error_of([] { pair.call<std::tuple<Tensor, Tensor, Tensor>>(ones()); }),
            "tcpp::pair: has 2 results, and call<std::tuple<…>> names 3; name each of them");
  EXPECT_EQ(error_of([] { twice.call<std::tuple<Tensor, Tensor>>(ones()); }),
            "tcpp::twice: has 1 results, and call<std::tuple<…>> names 2; name each of them");
  const auto [a, b] = pair.call<std::tuple<Tensor, Tensor>>(ones());
  EXPECT_TRUE(a.equal(b));
}

TEST(Operator, HasAGradient) {
  Tensor x = at::empty({}).fill_(1).requires_grad_();
  twice.call(x, 7).backward();
  EXPECT_EQ(x.grad().item<float>(), 7);
}

TEST(Operator, ErrorsAreTorchsClasses) {
  EXPECT_EQ(error_of<c10::ValueError>("value"), "tcpp::twice: a value; change it");
  EXPECT_EQ(error_of<c10::TypeError>("type"), "tcpp::twice: a type; change it");
  EXPECT_EQ(error_of<c10::NotImplementedError>("unsupported"), "tcpp::twice: not there; leave it");
  EXPECT_EQ(error_of<c10::Error>("runtime"), "tcpp::twice: broken; mend it");
  EXPECT_EQ(error_of<c10::Error>("earlier"), "check.cpp:7: assertion failed");  // not this operator's
}

TEST(Operator, ADefinitionThatFailsDoesNotThrow) {
  const tile::Operator bad = tile::op("tcpp::bad(Tensor x) -> (Tensor");
  EXPECT_THROW(bad.check(), tile::Error);
  EXPECT_THROW(bad.call(ones()), c10::ValueError);
  EXPECT_EQ(tile::registration_errors().size(), 1u);
}

std::string argument_error(const Tensor& tensor) {
  try {
    to_array_argument(tensor);
  } catch (const tile::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Arguments, HoldWhatATensorSays) {
  const Tensor tensor = at::empty({2, 3, 4}, at::kHalf).transpose(0, 2);
  const tile::ArrayArgument argument = to_array_argument(tensor);
  EXPECT_EQ(argument.data, tensor.data_ptr());
  EXPECT_EQ(argument.dtype, tile::DType::f16);
  ASSERT_EQ(argument.rank, 3);
  EXPECT_EQ(argument.sizes[0], 4);
  EXPECT_EQ(argument.strides[0], 1);
  EXPECT_EQ(argument.strides[2], 12);
  for (const auto& [torch, ours] : tile::scalar_type_table) {
    EXPECT_EQ(tile::to_dtype(torch), ours);
    EXPECT_EQ(tile::to_scalar_type(ours), torch);
    EXPECT_EQ(static_cast<int>(c10::elementSize(torch)), tile::info(ours).bytes);
  }
}

TEST(Arguments, RefuseWhatAKernelCannotRead) {
  EXPECT_EQ(
      argument_error(at::empty({1}, at::kComplexFloat)),
      "a kernel cannot take a ComplexFloat tensor; convert it to bool, an integer or a real floating dtype "
      "(complex: torch.view_as_real)");
  EXPECT_EQ(argument_error(Tensor()), "a kernel argument is an undefined tensor; pass one, or std::nullopt");
  EXPECT_EQ(argument_error(at::empty({1}, at::kMeta)),
            "a kernel cannot take a tensor on meta; move it to cpu or cuda");
  EXPECT_EQ(argument_error(at::empty({1, 1, 1, 1, 1, 1, 1, 1, 1})),
            "a kernel cannot take a tensor of rank 9; the most is 8, view it with fewer dimensions");
  EXPECT_EQ(argument_error(at::empty({2})._neg_view()),
            "a kernel cannot take a tensor with a lazy negation; call resolve_neg() first");
  try {
    tile::to_scalar_type(tile::DType::tf32);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const tile::Error& error) {
    EXPECT_STREQ(error.what(), "no tensor has dtype tf32; use f32, which holds its values");
  }
}

TEST(Threads, CoverTheRangeOnce) {
  EXPECT_EQ(tile::cpu::parallel_runtime().threads(), at::get_num_threads());
  std::vector<std::atomic<int>> seen(10007);
  tile::cpu::parallel_runtime().run(
      10007,
      [](int64_t begin, int64_t end, void* context) {
        for (int64_t i = begin; i < end; ++i) ++(*static_cast<std::vector<std::atomic<int>>*>(context))[i];
      },
      &seen);
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 1) << i;
}

TEST(Threads, AreTorchs) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::pair<std::mutex&, std::set<std::thread::id>&> context{mutex, ids};
  at::set_num_threads(2);
  tile::cpu::parallel_runtime().run(
      2,
      [](int64_t, int64_t, void* pointer) {
        auto& [lock, set] = *static_cast<std::pair<std::mutex&, std::set<std::thread::id>&>*>(pointer);
        std::lock_guard guard(lock);
        set.insert(std::this_thread::get_id());
        EXPECT_EQ(tile::cpu::parallel_runtime().threads(), 1);  // nested loops run on their caller
      },
      &context);
  EXPECT_EQ(ids.size(), 2u);
}

TEST(Threads, RethrowWhatABodyThrows) {
  try {
    tile::cpu::parallel_runtime().run(
        100, [](int64_t, int64_t, void*) { tile::fail(tile::ErrorKind::value, "from a thread; stop"); },
        nullptr);
    FAIL();
  } catch (const tile::Error& error) {
    EXPECT_STREQ(error.what(), "from a thread; stop");
    EXPECT_EQ(error.kind(), tile::ErrorKind::value);
  }
}

}  // namespace
