//===- Steps.h - What the conversion to LLVM is made of --------*- C++ -*-===//

#ifndef MINITRITON_LIB_CONVERSION_MINITOLLVM_STEPS_H
#define MINITRITON_LIB_CONVERSION_MINITOLLVM_STEPS_H

#include "minitriton/Conversion/MiniToLLVM/Passes.h"
#include "minitriton/Conversion/MiniToLLVM/TypeConverter.h"

namespace mlir::mini {

/// Fails, and says why, unless all public functions can be kernels.
LogicalResult verifyKernels(ModuleOp module);

/// Gives each function the program's and thread's position as arguments, and
/// uses these instead of `mini.program_id` and `mini.thread_id`.
void passPositionsAsArguments(ModuleOp module);

/// Makes kernels of the public ones of `module`'s LLVM functions.
void markKernels(ModuleOp module, Platform platform, int32_t threads);

/// One pattern for each operation of the mini dialect, and one for constant
/// blocks.
void populateMiniToLLVMPatterns(const MiniTypeConverter &converter,
                                Platform platform, RewritePatternSet &patterns);

} // namespace mlir::mini

#endif // MINITRITON_LIB_CONVERSION_MINITOLLVM_STEPS_H
