// Calls every operator and its gradient in a program without Python, which sanitizers can check: shapes that
// no tile divides, on several threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <thread>

#include "tile_ops/dispatch.h"

namespace tile::test {
namespace {

using c10::IValue;

class Operators : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(0);
    at::set_num_threads(4);
  }
};
Tensor first(const std::vector<IValue>& results) { return results.at(0).toTensor(); }
IValue extents(std::vector<int64_t> list) { return IValue(std::move(list)); }

TEST_F(Operators, Softmax) {
  for (const int64_t axis : {1, 0, -1}) {
    compare(
        "softmax",
        [=](const Tensors& x) {
          return first(call("softmax", {x[0], axis}));
        },
        [=](const Tensors& x) { return at::softmax(x[0], axis); }, {at::randn({37, 5, 303})});
    compare(
        "log_softmax",
        [=](const Tensors& x) {
          return first(call("log_softmax", {x[0], axis}));
        },
        [=](const Tensors& x) { return at::log_softmax(x[0], axis); }, {at::randn({37, 5, 303})});
  }
}

TEST_F(Operators, Norms) {
  const int64_t width = 301;
  const Tensors inputs = {at::randn({143, width}), at::randn({width}), at::randn({width})};
  compare(
      "layer_norm",
      [=](const Tensors& x) {
        return first(call("layer_norm", {x[0], extents({width}), x[1], x[2]}));
      },
      [=](const Tensors& x) { return at::layer_norm(x[0], {width}, x[1], x[2]); }, inputs);
  compare(
      "rms_norm",
      [=](const Tensors& x) {
        return first(call("rms_norm", {x[0], extents({width}), x[1], 1e-6}));
      },
      [=](const Tensors& x) { return at::rms_norm(x[0], {width}, x[1], 1e-6); }, {inputs[0], inputs[1]});
  const auto both = [](const Tensor& out, const Tensor& sum) { return at::cat({out, sum}); };
  compare(
      "add_rms_norm",
      [=](const Tensors& x) {
        const auto results = call("add_rms_norm", {x[0], x[1], extents({width}), x[2], 1e-6});
        return both(results.at(0).toTensor(), results.at(1).toTensor());
      },
      [=](const Tensors& x) { return both(at::rms_norm(x[0] + x[1], {width}, x[2], 1e-6), x[0] + x[1]); },
      {inputs[0], at::randn({143, width}), inputs[1]});
}

TEST_F(Operators, GroupNorm) {
  for (const bool last : {false, true}) {
    const Tensor x =
        at::randn({3, 12, 17, 19}).to(last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
    compare(
        "group_norm",
        [](const Tensors& x) {
          return first(call("group_norm", {x[0], 4, x[1], x[2]}, {{"activation", "silu"}}));
        },
        [](const Tensors& x) { return at::silu(at::group_norm(x[0], 4, x[1], x[2])); },
        {x, at::randn({12}), at::randn({12})});
  }
}

TEST_F(Operators, Products) {
  const Tensors inputs = {at::randn({67, 93}), at::randn({93, 131}), at::randn({131})};
  compare(
      "matmul",
      [](const Tensors& x) {
        return first(call("matmul", {x[0], x[1]}, {{"bias", x[2]}, {"activation", "gelu"}}));
      },
      [](const Tensors& x) { return at::gelu(at::matmul(x[0], x[1]) + x[2]); }, inputs);
  compare(
      "matmul, batched and transposed",
      [](const Tensors& x) {
        return first(call("matmul", {x[0].transpose(1, 2), x[1]}));
      },
      [](const Tensors& x) { return at::matmul(x[0].transpose(1, 2), x[1]); },
      {at::randn({3, 41, 35}), at::randn({3, 41, 29})});
  compare(
      "gated_matmul",
      [](const Tensors& x) {
        return first(call("gated_matmul", {x[0], x[1], x[2]}));
      },
      [](const Tensors& x) { return at::silu(at::matmul(x[0], x[1])) * at::matmul(x[0], x[2]); },
      {at::randn({67, 45}), at::randn({45, 83}), at::randn({45, 83})});
}

TEST_F(Operators, Gates) {
  const Tensors inputs = {at::randn({71, 333}), at::randn({333, 71}).t()};
  compare(
      "swiglu",
      [](const Tensors& x) {
        return first(call("swiglu", {x[0], x[1]}));
      },
      [](const Tensors& x) { return at::silu(x[0]) * x[1]; }, inputs);
  compare(
      "geglu",
      [](const Tensors& x) {
        return first(call("geglu", {x[0], x[1]}));
      },
      [](const Tensors& x) { return at::gelu(x[0]) * x[1]; }, inputs);
}

TEST_F(Operators, Attention) {
  const Tensors inputs = {at::randn({2, 4, 77, 24}), at::randn({2, 4, 77, 24}), at::randn({2, 4, 77, 24})};
  for (const bool causal : {false, true})
    compare(
        "attention",
        [=](const Tensors& x) {
          return first(call("attention", {x[0], x[1], x[2]}, {{"is_causal", causal}}));
        },
        [=](const Tensors& x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, causal); },
        inputs);
  // Two sequences of 30 and 47, [tokens, heads, width]; in the reference a head is a batch.
  const Tensor starts = at::tensor({0, 30, 77}, at::kInt);
  const auto packed = [](const Tensor& x) { return x[0].transpose(0, 1); };
  compare(
      "attention_varlen",
      [=](const Tensors& x) {
        return first(
            call("attention_varlen", {packed(x[0]), packed(x[1]), packed(x[2]), starts, starts, 47, 47}));
      },
      [=](const Tensors& x) {
        const auto part = [&](int64_t from, int64_t to) {
          const auto of = [&](const Tensor& each) { return each.slice(2, from, to); };
          return packed(at::scaled_dot_product_attention(of(x[0]), of(x[1]), of(x[2])));
        };
        return at::cat({part(0, 30), part(30, 77)});
      },
      inputs);
}

TEST_F(Operators, Decoding) {
  const Tensor query = at::randn({2, 4, 1, 24}), key = at::randn({2, 2, 200, 24}),
               value = at::randn({2, 2, 200, 24});
  const Tensor out = first(call("attention_decode", {query, key, value, at::tensor({130, 200}, at::kLong)}));
  for (int64_t b = 0; b < 2; ++b) {
    const auto of = [&](const Tensor& cache) {
      return cache.slice(0, b, b + 1).slice(2, 0, b ? 200 : 130).repeat_interleave(2, 1).to(at::kDouble);
    };
    const Tensor wide = query.slice(0, b, b + 1).to(at::kDouble);
    expect_close(out.slice(0, b, b + 1), at::scaled_dot_product_attention(wide, of(key), of(value)),
                 "attention_decode");
  }
}

TEST_F(Operators, Losses) {
  const Tensor target = at::randint(0, 203, {91});
  target[5] = -100;
  compare(
      "cross_entropy",
      [](const Tensors& x) {
        return first(call("cross_entropy", {x[0], x[1]}, {{"label_smoothing", 0.1}}));
      },
      [](const Tensors& x) { return at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::Mean, -100, 0.1); },
      {at::randn({91, 203}), target});
  compare(
      "linear_cross_entropy",
      [](const Tensors& x) {
        return first(call("linear_cross_entropy", {x[0], x[1], x[2]}));
      },
      [](const Tensors& x) { return at::cross_entropy_loss(at::linear(x[0], x[1]), x[2]); },
      {at::randn({91, 33}), at::randn({203, 33}), target});
}

TEST_F(Operators, EmbeddingAndRope) {
  compare(
      "embedding",
      [](const Tensors& x) {
        return first(call("embedding", {x[0], x[1], 3}));
      },
      [](const Tensors& x) { return at::embedding(x[0], x[1], 3); },
      {at::randn({50, 301}), at::randint(0, 50, {7, 31})});
  const auto turned = [](const Tensor& x, const Tensor& cos, const Tensor& sin) {
    const auto halves = x.chunk(2, -1);
    return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
  };
  const Tensor angles = at::randn({53, 16}), all = at::cat({angles, angles}, -1);
  const Tensor cos = all.cos(), sin = all.sin();
  compare(
      "rope",
      [=](const Tensors& x) {
        const auto results = call("rope", {x[0], x[1], cos, sin});
        return at::cat({results.at(0).toTensor(), results.at(1).toTensor()}, 1);
      },
      [=](const Tensors& x) {
        return at::cat({turned(x[0], cos, sin), turned(x[1], cos, sin)}, 1);
      },
      {at::randn({2, 4, 53, 32}), at::randn({2, 2, 53, 32})});
}

TEST_F(Operators, Dropout) {
  const Tensor seed = at::tensor({5, 7}, at::kLong), x = at::ones({211, 303}).requires_grad_();
  const Tensor out = first(call("dropout", {x, 0.25, seed}));
  out.backward(at::ones_like(out));
  EXPECT_TRUE(at::equal(x.grad(), out.detach()));
  EXPECT_NEAR(out.mean().item<double>(), 1, 0.02);
}

TEST_F(Operators, AdamW) {
  std::vector<Tensor> parameters, gradients, first_moments, second_moments, steps;
  for (const int64_t count : {1, 1001, 70000}) {
    parameters.push_back(at::ones({count}));
    gradients.push_back(at::full({count}, 2.0));
    first_moments.push_back(at::zeros({count}));
    second_moments.push_back(at::zeros({count}));
    steps.push_back(at::full({}, 1.0));
  }
  call("adamw_", {parameters, gradients, first_moments, second_moments, steps}, {{"lr", 0.1}});
  // In the first step, the ratio of the corrected moments is 1.
  for (const Tensor& each : parameters)
    expect_close(each, at::full_like(each, 1 - 0.1 * 0.01 - 0.1), "adamw_");
  for (const Tensor& each : second_moments) expect_close(each, at::full_like(each, 0.004), "adamw_");
}

TEST_F(Operators, OfSeveralThreads) {
  std::vector<Tensor> inputs, results(4);
  for (int64_t i = 0; i < 4; ++i) inputs.push_back(at::randn({64 + i, 257}));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < inputs.size(); ++i)
    threads.emplace_back([&, i] { results[i] = first(call("softmax", {inputs[i], -1})); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(results[i], at::softmax(inputs[i].to(at::kDouble), -1), "softmax of a thread");
}

}  // namespace
}  // namespace tile::test
