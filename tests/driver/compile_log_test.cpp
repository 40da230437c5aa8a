// Tests the resources that ptxas reports for each kernel. nvrtc_test covers the errors in logs.
#include "driver/compile_log.h"

#include <gtest/gtest.h>

namespace tile {
namespace {

const std::string log = R"(k.cu(4): warning #177-D: variable "unused" was declared but never referenced

ptxas info    : 2 bytes gmem
ptxas info    : Compiling entry function 'small' for 'sm_90a'
ptxas info    : Function properties for small
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function 'smaller' for 'sm_90a'
ptxas info    : Function properties for smaller
ptxas         .     208 bytes stack frame, 332 bytes spill stores, 344 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 208 bytes cumulative stack size, 16384 bytes smem, 400 bytes cmem[0]
)";

TEST(CompileLog, ResourcesOfAKernel) {
  const KernelResources r = resources_in(log, "smaller");
  EXPECT_EQ(r.registers, 255);
  EXPECT_EQ(r.stack_bytes, 208);
  EXPECT_EQ(r.spill_stores, 332);
  EXPECT_EQ(r.spill_loads, 344);
  EXPECT_EQ(r.barriers, 2);
  EXPECT_EQ(r.shared_bytes, 16384);
  EXPECT_EQ(resources_in(log, "small").registers, 8);
  EXPECT_EQ(resources_in(log, "other").registers, 0);
}

TEST(CompileLog, LossOfSpeed) {
  EXPECT_EQ(performance_loss(log), "");
  EXPECT_EQ(
      performance_loss("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
                       "serialized due to ill formed pipeline stage in the function 'k'\nptxas info : 1"),
      "wgmma.mma_async instructions are serialized due to ill formed pipeline stage in the function 'k'");
}

}  // namespace
}  // namespace tile
