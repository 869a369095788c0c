//===- TypeConverter.cpp - The mini dialect's types in LLVM ---------------===//

#include "minitriton/Conversion/MiniToLLVM/TypeConverter.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"

using namespace mlir;
using namespace mlir::mini;

MiniTypeConverter::MiniTypeConverter(MLIRContext *context, Platform platform)
    : LLVMTypeConverter(context) {
  addConversion([platform](PtrType pointer) -> Type {
    return LLVM::LLVMPointerType::get(pointer.getContext(),
                                      getGlobalAddressSpace(platform));
  });
  addConversion([this](RankedTensorType block) -> std::optional<Type> {
    if (block.getRank() != 1 || !block.hasStaticShape())
      return std::nullopt;
    Type element = convertType(block.getElementType());
    if (!element)
      return std::nullopt;
    // Not always a VectorType: one of those can't hold pointers.
    return LLVM::getFixedVectorType(element, block.getNumElements());
  });
}
