// A LibTorch program without Python: a gated network with our swiglu learns to separate two spirals.
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <cstdio>

#include "swiglu.h"

namespace nn = torch::nn;

struct GatedNet : nn::Module {
  nn::Linear gate = register_module("gate", nn::Linear(2, 96));
  nn::Linear up = register_module("up", nn::Linear(2, 96));
  nn::Linear gate2 = register_module("gate2", nn::Linear(96, 96));
  nn::Linear up2 = register_module("up2", nn::Linear(96, 96));
  nn::Linear out = register_module("out", nn::Linear(96, 2));

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = examples::swiglu(gate(x), up(x));
    return out(examples::swiglu(gate2(hidden), up2(hidden)));
  }
};

// Returns points of two interleaved spirals, and the spiral of each point.
std::pair<at::Tensor, at::Tensor> spirals(int64_t count) {
  const at::Tensor label = torch::randint(2, {count});
  const at::Tensor radius = torch::rand({count}) * 0.9 + 0.1;
  const at::Tensor angle = radius * 9 + label * M_PI;
  const at::Tensor points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  return {(points + 0.02 * torch::randn({count, 2})) * 2, label};
}

int main() try {
  torch::manual_seed(0);
  GatedNet net;
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(5e-3));
  const auto [points, labels] = spirals(1024);
  for (int step = 0; step <= 400; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = nn::functional::cross_entropy(net.forward(points), labels);
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::printf("step %3d  loss %.4f\n", step, loss.item<double>());
  }
  torch::NoGradGuard no_grad;
  const auto [new_points, new_labels] = spirals(2000);
  const double right = (net.forward(new_points).argmax(1) == new_labels).to(torch::kDouble).mean().item<double>();
  std::printf("right on new points: %.1f %%\n", 100 * right);
  return right > 0.95 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
