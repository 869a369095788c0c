//===- HostKernel.cpp - Kernels that run in this process ------------------===//

#include "MachineCode.h"

#include "minitriton/Target/Target.h"
#include "llvm/ExecutionEngine/Orc/CompileUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

using namespace mlir;
using namespace mlir::mini;

HostKernels::HostKernels(std::unique_ptr<llvm::orc::LLJIT> jit)
    : jit(std::move(jit)) {}

HostKernels::~HostKernels() = default;

llvm::Expected<std::unique_ptr<HostKernels>>
HostKernels::compile(ModuleOp module) {
  auto arch = Arch::parse("host");
  if (!arch)
    return arch.takeError();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto translated = toLLVMIR(module, *arch, *context);
  if (!translated)
    return translated.takeError();

  llvm::orc::JITTargetMachineBuilder machine{llvm::Triple(arch->triple)};
  machine.setFeatures(arch->features);
  auto jit =
      llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(machine).create();
  if (!jit)
    return jit.takeError();
  if (llvm::Error error = (*jit)->addIRModule(llvm::orc::ThreadSafeModule(
          std::move(*translated), std::move(context))))
    return std::move(error);
  return std::unique_ptr<HostKernels>(new HostKernels(std::move(*jit)));
}

llvm::Expected<void *> HostKernels::lookup(llvm::StringRef kernel) {
  auto address = jit->lookup(kernel);
  if (!address)
    return address.takeError();
  return address->toPtr<void *>();
}
