// Defines the order of the passes.
#include "passes/pipeline.h"

#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"
#include "support/log.h"

namespace tile {
namespace {

using Options = PipelineOptions;
template <bool (*pass)(Function&)>
bool plain(Function& function, const Options&) {
  return pass(function);
}

struct Pass {
  std::string_view name;
  bool (*run)(Function&, const Options&);
};
constexpr Pass passes[] = {
    {"expand", plain<expand>},
    {"canonicalise", plain<canonicalise>},
    {"fold", plain<fold>},
    {"simplify", plain<simplify>},
    {"simplify_control", plain<simplify_control>},
    {"single_products", plain<single_products>},
    {"named_reductions", plain<named_reductions>},
    {"drop_unit_axes", plain<drop_unit_axes>},
    {"cse", plain<cse>},
    {"licm", plain<licm>},
    {"simplify_masks", plain<simplify_masks>},
    {"split_loops", split_loops},
    // Clean up after known masks and split loops.
    {"fold", plain<fold>},
    {"simplify", plain<simplify>},
    {"cse", plain<cse>},
    {"simplify_masks", plain<simplify_masks>},
    {"fold", plain<fold>},
    {"simplify", plain<simplify>},
    {"simplify_control", plain<simplify_control>},
    {"dce", plain<dce>},
    {"cse", plain<cse>},
    {"licm", plain<licm>},
    {"canonicalise", plain<canonicalise>},
    {"find_runs", plain<find_runs>},
};

template <class Changed>
void run(Function& function, const Options& options, Changed changed) {
  for (const Pass& pass : passes) {
    if (!pass.run(function, options)) continue;
    verify(function, pass.name);
    changed(pass);
  }
}

}  // namespace

void run_passes(Function& function, const Options& options) {
  if (!dumps("ir")) return run(function, options, [](const Pass&) {});
  auto show = [&](std::string_view title) { dump(str("// ", title, '\n', print(function), '\n')); };
  show("as traced");
  run(function, options, [&](const Pass& pass) { show(str("after ", pass.name)); });
}

std::vector<Stage> stages_of(const Function& function, const Options& options) {
  Function copy = clone(function);
  std::vector<Stage> stages{{"trace", print(copy)}};
  run(copy, options, [&](const Pass& pass) {
    std::string text = print(copy);
    if (text != stages.back().text) stages.push_back({pass.name, std::move(text)});
  });
  return stages;
}

bool run_pass(std::string_view name, Function& function, const Options& options) {
  for (const Pass& pass : passes)
    if (pass.name == name) {
      bool changed = pass.run(function, options);
      verify(function, name);
      return changed;
    }
  fail(ErrorKind::value, "there is no pass '", name, "'; the passes are ",
       join(passes, ", ", [](const Pass& pass) { return pass.name; }));
}

}  // namespace tile
