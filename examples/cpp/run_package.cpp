// Runs a model that torch.export and AOTInductor packed, with our operators, in a program without Python:
//   run_package model.pt2 inputs.pt outputs.pt
// inputs.pt is torch.save of a list of tensors; the outputs are written in the same form. The program links
// TileOps::tile_ops, which registers the operators that the package calls by name.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/serialize.h>

#include <cstdio>
#include <fstream>
#include <iterator>

std::vector<char> bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("usage: run_package model.pt2 inputs.pt outputs.pt");
  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  std::vector<at::Tensor> inputs;
  const c10::IValue given = torch::pickle_load(bytes_of(argv[2]));
  for (const c10::IValue& input : given.toListRef()) inputs.push_back(input.toTensor());
  const std::vector<at::Tensor> outputs = model.run(inputs);
  const std::vector<char> bytes = torch::pickle_save(outputs);
  std::ofstream(argv[3], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::printf("%zu outputs\n", outputs.size());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
