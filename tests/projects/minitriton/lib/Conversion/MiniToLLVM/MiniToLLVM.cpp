//===- MiniToLLVM.cpp - The conversion to LLVM's dialect ------------------===//

#include "Steps.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::mini {
#define GEN_PASS_DEF_CONVERTMINITOLLVM
#include "minitriton/Conversion/MiniToLLVM/Passes.h.inc"
} // namespace mlir::mini

using namespace mlir;
using namespace mlir::mini;

namespace {

struct ConvertMiniToLLVM
    : mini::impl::ConvertMiniToLLVMBase<ConvertMiniToLLVM> {
  using ConvertMiniToLLVMBase::ConvertMiniToLLVMBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto threads =
        module->getAttrOfType<IntegerAttr>(MiniDialect::getThreadsAttrName());
    if (!threads) {
      module.emitError("isn't distributed: run mini-distribute first");
      return signalPassFailure();
    }
    if (failed(verifyKernels(module)))
      return signalPassFailure();
    if (platform == Platform::CPU)
      passPositionsAsArguments(module);

    MLIRContext *context = &getContext();
    MiniTypeConverter converter(context, platform);
    RewritePatternSet patterns(context);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    populateFuncToLLVMConversionPatterns(converter, patterns);
    populateMiniToLLVMPatterns(converter, platform, patterns);

    ConversionTarget target(*context);
    target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect,
                           ROCDL::ROCDLDialect>();
    target.addLegalOp<ModuleOp>();
    if (failed(applyFullConversion(module, target, std::move(patterns))))
      return signalPassFailure();

    markKernels(module, platform, static_cast<int32_t>(threads.getInt()));
  }
};

} // namespace
