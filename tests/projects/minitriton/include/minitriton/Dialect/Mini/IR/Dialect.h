//===- Dialect.h - The mini dialect ----------------------------*- C++ -*-===//

#ifndef MINITRITON_DIALECT_MINI_IR_DIALECT_H
#define MINITRITON_DIALECT_MINI_IR_DIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h.inc"
#include "minitriton/Dialect/Mini/IR/Enums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "minitriton/Dialect/Mini/IR/Types.h.inc"

namespace mlir::mini {

/// The block of elements that a block of pointers points to.
Type getPointedToType(Type pointers);

/// The block of booleans of `block`'s shape.
Type getMaskType(Type block);

} // namespace mlir::mini

#define GET_OP_CLASSES
#include "minitriton/Dialect/Mini/IR/Ops.h.inc"

#endif // MINITRITON_DIALECT_MINI_IR_DIALECT_H
