//===- Dialect.cpp - The mini dialect, its types and attributes -----------===//

#include "minitriton/Dialect/Mini/IR/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::mini;

#include "minitriton/Dialect/Mini/IR/Dialect.cpp.inc"
#include "minitriton/Dialect/Mini/IR/Enums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "minitriton/Dialect/Mini/IR/Types.cpp.inc"

void MiniDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "minitriton/Dialect/Mini/IR/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "minitriton/Dialect/Mini/IR/Ops.cpp.inc"
      >();
}

Operation *MiniDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                            Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

LogicalResult PtrType::verify(function_ref<InFlightDiagnostic()> emitError,
                              Type pointee) {
  bool isElement = llvm::isa<FloatType>(pointee) || pointee.isInteger(8) ||
                   pointee.isInteger(16) || pointee.isInteger(32) ||
                   pointee.isInteger(64);
  if (!isElement)
    return emitError() << "expected a pointer to a float or an i8, i16, i32 or "
                          "i64, got "
                       << pointee;
  return success();
}
