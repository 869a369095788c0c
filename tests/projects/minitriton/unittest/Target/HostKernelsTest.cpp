//===- HostKernelsTest.cpp - Kernels that run in this process -------------===//

#include "minitriton/Target/Target.h"

#include "minitriton/Conversion/MiniToLLVM/Passes.h"
#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

using namespace mlir;
using namespace mlir::mini;

namespace {

// out[i] = 2 * x[i] for i < n
constexpr const char *kDouble = R"mlir(
func.func @double(%x: !mini.ptr<f32>, %out: !mini.ptr<f32>, %n: i32) {
  %eight = arith.constant 8 : i32
  %program = mini.program_id x : i32
  %start = arith.muli %program, %eight : i32
  %starts = mini.splat %start : tensor<8xi32>
  %range = mini.range 0 to 8 : tensor<8xi32>
  %offsets = arith.addi %starts, %range : tensor<8xi32>
  %ends = mini.splat %n : tensor<8xi32>
  %mask = arith.cmpi slt, %offsets, %ends : tensor<8xi32>
  %x_start = mini.splat %x : tensor<8x!mini.ptr<f32>>
  %x_ptrs = mini.addptr %x_start, %offsets : tensor<8x!mini.ptr<f32>>, tensor<8xi32>
  %xs = mini.load %x_ptrs, %mask : tensor<8x!mini.ptr<f32>>
  %sums = arith.addf %xs, %xs : tensor<8xf32>
  %out_start = mini.splat %out : tensor<8x!mini.ptr<f32>>
  %out_ptrs = mini.addptr %out_start, %offsets : tensor<8x!mini.ptr<f32>>, tensor<8xi32>
  mini.store %out_ptrs, %sums, %mask : tensor<8x!mini.ptr<f32>>
  return
}
)mlir";

using Double = void (*)(const float *, float *, int32_t n, int32_t x, int32_t y,
                        int32_t z, int32_t thread);

class HostKernelsTest : public ::testing::TestWithParam<int32_t> {
protected:
  HostKernelsTest() : context(registry(), MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }

  std::unique_ptr<HostKernels> compile(int32_t threads) {
    auto module = parseSourceString<ModuleOp>(kDouble, ParserConfig(&context));
    PassManager passes(&context);
    buildLoweringPipeline(passes, Platform::CPU, threads);
    if (!module || failed(passes.run(*module)))
      return nullptr;
    auto kernels = HostKernels::compile(*module);
    return kernels ? std::move(*kernels) : nullptr;
  }

private:
  static DialectRegistry registry() {
    DialectRegistry registry;
    registry.insert<MiniDialect, arith::ArithDialect, func::FuncDialect>();
    registerLLVMTranslations(registry);
    return registry;
  }

  MLIRContext context;
};

TEST_P(HostKernelsTest, ThreadsOfAllProgramsDoTheWholeWork) {
  const int32_t threads = GetParam();
  auto kernels = compile(threads);
  ASSERT_TRUE(kernels);
  auto address = kernels->lookup("double");
  ASSERT_TRUE(static_cast<bool>(address));
  auto kernel = reinterpret_cast<Double>(*address);

  // Two full blocks and a bit, and room to write too far.
  const int32_t length = 19, room = 24;
  std::vector<float> x(room), out(room, -1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  for (int32_t program = 0; program < room / 8; ++program)
    for (int32_t thread = 0; thread < threads; ++thread)
      kernel(x.data(), out.data(), length, program, 0, 0, thread);

  for (int32_t i = 0; i < room; ++i)
    EXPECT_EQ(out[i], i < length ? 2.0f * i : -1.0f) << "at " << i;
}

TEST_P(HostKernelsTest, OtherNamesAreNotFound) {
  auto kernels = compile(GetParam());
  ASSERT_TRUE(kernels);
  auto address = kernels->lookup("triple");
  ASSERT_FALSE(static_cast<bool>(address));
  EXPECT_NE(llvm::toString(address.takeError()).find("triple"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Threads, HostKernelsTest, ::testing::Values(1, 2, 8));

} // namespace
