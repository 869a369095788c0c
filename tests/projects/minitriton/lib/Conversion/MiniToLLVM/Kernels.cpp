//===- Kernels.cpp - How each platform calls a kernel ---------------------===//

#include "Steps.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::mini;

LogicalResult mini::verifyKernels(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      return function.emitOpError("has no body: a kernel can't call others");
    if (function.isPublic() && function.getNumResults() != 0)
      return function.emitOpError("returns a value: a kernel has nobody to "
                                  "return it to");
  }
  return success();
}

void mini::passPositionsAsArguments(ModuleOp module) {
  Type i32 = IntegerType::get(module.getContext(), 32);
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<Value, 4> position; // x, y, z, thread
    for (int i = 0; i < 4; ++i) {
      unsigned index = function.getNumArguments();
      function.insertArgument(index, i32, /*argAttrs=*/{}, function.getLoc());
      position.push_back(function.getArgument(index));
    }
    function.walk([&](ProgramIdOp op) {
      op.getResult().replaceAllUsesWith(
          position[static_cast<uint32_t>(op.getAxis())]);
      op.erase();
    });
    function.walk([&](ThreadIdOp op) {
      op.getResult().replaceAllUsesWith(position.back());
      op.erase();
    });
  }
}

void mini::markKernels(ModuleOp module, Platform platform, int32_t threads) {
  Builder builder(module);
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    if (function.isPrivate())
      continue;
    switch (platform) {
    case Platform::CPU:
      break;
    case Platform::CUDA:
      function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                        builder.getUnitAttr());
      function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                        builder.getDenseI32ArrayAttr({threads}));
      break;
    case Platform::ROCm: {
      std::string size = std::to_string(threads);
      function->setAttr(ROCDL::ROCDLDialect::getKernelFuncAttrName(),
                        builder.getUnitAttr());
      function->setAttr("rocdl.flat_work_group_size",
                        builder.getStringAttr(size + "," + size));
      break;
    }
    }
  }
}
