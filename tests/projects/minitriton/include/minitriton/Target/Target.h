//===- Target.h - From LLVM's dialect to machine code ----------*- C++ -*-===//

#ifndef MINITRITON_TARGET_TARGET_H
#define MINITRITON_TARGET_TARGET_H

#include "minitriton/Target/Arch.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace llvm::orc {
class LLJIT;
}

namespace mlir {
class DialectRegistry;

namespace mini {

/// What `toLLVMIR` must find in the context of the modules it translates.
void registerLLVMTranslations(DialectRegistry &registry);

/// LLVM IR for `arch`, optimised, from a module that was lowered for `arch`'s
/// platform.
llvm::Expected<std::unique_ptr<llvm::Module>>
toLLVMIR(ModuleOp module, const Arch &arch, llvm::LLVMContext &context);

/// PTX, or assembly.
llvm::Expected<std::string> toAssembly(llvm::Module &module, const Arch &arch);

/// An ELF object that nobody has linked yet. NVIDIA's GPUs have none: LLVM
/// stops at PTX.
llvm::Expected<llvm::SmallVector<char, 0>> toObject(llvm::Module &module,
                                                    const Arch &arch);

/// The kernels of a module that isn't lowered yet, as JSON: their names,
/// arguments and threads.
std::string describeKernels(ModuleOp module, const Arch &arch, int32_t threads);

/// Kernels in this process's memory, compiled for the host.
class HostKernels {
public:
  /// `module` must have been lowered for the CPU.
  static llvm::Expected<std::unique_ptr<HostKernels>> compile(ModuleOp module);

  /// The function's address, valid as long as this object. Its arguments are
  /// those of the kernel, then the program's x, y and z and the thread, as i32.
  llvm::Expected<void *> lookup(llvm::StringRef kernel);

  ~HostKernels();

private:
  explicit HostKernels(std::unique_ptr<llvm::orc::LLJIT> jit);
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace mini
} // namespace mlir

#endif // MINITRITON_TARGET_TARGET_H
