//===- Passes.h - Passes within the mini dialect ---------------*- C++ -*-===//

#ifndef MINITRITON_DIALECT_MINI_TRANSFORMS_PASSES_H
#define MINITRITON_DIALECT_MINI_TRANSFORMS_PASSES_H

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::mini {

#define GEN_PASS_DECL
#include "minitriton/Dialect/Mini/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "minitriton/Dialect/Mini/Transforms/Passes.h.inc"

} // namespace mlir::mini

#endif // MINITRITON_DIALECT_MINI_TRANSFORMS_PASSES_H
