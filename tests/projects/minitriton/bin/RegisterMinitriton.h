//===- RegisterMinitriton.h - What all of our tools know -------*- C++ -*-===//

#ifndef MINITRITON_BIN_REGISTERMINITRITON_H
#define MINITRITON_BIN_REGISTERMINITRITON_H

#include "minitriton/Conversion/MiniToLLVM/Passes.h"
#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "minitriton/Dialect/Mini/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace mlir::mini {

inline void registerMinitritonDialects(DialectRegistry &registry) {
  registry.insert<MiniDialect, arith::ArithDialect, func::FuncDialect,
                  LLVM::LLVMDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect>();
}

inline void registerMinitritonPasses() {
  registerTransformsPasses();
  registerMiniTransformsPasses();
  registerMiniToLLVMPasses();
  registerLoweringPipeline();
}

} // namespace mlir::mini

#endif // MINITRITON_BIN_REGISTERMINITRITON_H
