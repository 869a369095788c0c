//===- TypeConverter.h - The mini dialect's types in LLVM ------*- C++ -*-===//

#ifndef MINITRITON_CONVERSION_MINITOLLVM_TYPECONVERTER_H
#define MINITRITON_CONVERSION_MINITOLLVM_TYPECONVERTER_H

#include "minitriton/Conversion/MiniToLLVM/Platform.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"

namespace mlir::mini {

/// Tensors, which hold one thread's elements by now, become vectors, pointers
/// those of the platform's global memory.
class MiniTypeConverter : public LLVMTypeConverter {
public:
  MiniTypeConverter(MLIRContext *context, Platform platform);
};

} // namespace mlir::mini

#endif // MINITRITON_CONVERSION_MINITOLLVM_TYPECONVERTER_H
