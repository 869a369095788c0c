//===- Pipeline.cpp - All passes from a front end's output to LLVM --------===//

#include "minitriton/Conversion/MiniToLLVM/Passes.h"

#include "minitriton/Dialect/Mini/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::mini;

namespace {

struct LoweringOptions : PassPipelineOptions<LoweringOptions> {
  Option<Platform> platform{
      *this, "platform", llvm::cl::desc("What the kernels run on"),
      llvm::cl::init(Platform::CUDA),
      llvm::cl::values(clEnumValN(Platform::CPU, "cpu", "the host"),
                       clEnumValN(Platform::CUDA, "cuda", "NVIDIA's GPUs"),
                       clEnumValN(Platform::ROCm, "rocm", "AMD's GPUs"))};
  Option<int32_t> threads{*this, "threads",
                          llvm::cl::desc("Threads of one program"),
                          llvm::cl::init(128)};
};

} // namespace

void mini::buildLoweringPipeline(OpPassManager &passes, Platform platform,
                                 int32_t threads) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createMiniScalarizeUniform());
  passes.addPass(createMiniDistribute({threads}));
  passes.addPass(createCSEPass());
  passes.addPass(createConvertMiniToLLVM({platform}));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

void mini::registerLoweringPipeline() {
  PassPipelineRegistration<LoweringOptions>(
      "mini-lower", "Lower the mini dialect to LLVM's",
      [](OpPassManager &passes, const LoweringOptions &options) {
        buildLoweringPipeline(passes, options.platform, options.threads);
      });
}
