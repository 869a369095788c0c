//===- Passes.h - From the mini dialect to LLVM's --------------*- C++ -*-===//

#ifndef MINITRITON_CONVERSION_MINITOLLVM_PASSES_H
#define MINITRITON_CONVERSION_MINITOLLVM_PASSES_H

#include "minitriton/Conversion/MiniToLLVM/Platform.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::mini {

#define GEN_PASS_DECL
#include "minitriton/Conversion/MiniToLLVM/Passes.h.inc"

/// Everything between what a front end makes and LLVM's dialect.
void buildLoweringPipeline(OpPassManager &passes, Platform platform,
                           int32_t threads);

/// Registers `mini-lower{platform=... threads=...}`, the pipeline above.
void registerLoweringPipeline();

#define GEN_PASS_REGISTRATION
#include "minitriton/Conversion/MiniToLLVM/Passes.h.inc"

} // namespace mlir::mini

#endif // MINITRITON_CONVERSION_MINITOLLVM_PASSES_H
