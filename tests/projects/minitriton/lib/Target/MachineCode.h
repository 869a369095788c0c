//===- MachineCode.h - LLVM's code generators ------------------*- C++ -*-===//

#ifndef MINITRITON_LIB_TARGET_MACHINECODE_H
#define MINITRITON_LIB_TARGET_MACHINECODE_H

#include "minitriton/Target/Arch.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>

namespace mlir::mini {

/// LLVM's code generator for `arch`. Fails if this LLVM has none or doesn't
/// know the CPU.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const Arch &arch);

} // namespace mlir::mini

#endif // MINITRITON_LIB_TARGET_MACHINECODE_H
