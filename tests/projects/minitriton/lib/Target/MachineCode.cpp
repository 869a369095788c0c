//===- MachineCode.cpp - PTX, assembly and objects ------------------------===//

#include "MachineCode.h"

#include "minitriton/Target/Target.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

using namespace mlir;
using namespace mlir::mini;

namespace {

void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
  });
}

llvm::Error emit(llvm::Module &module, const Arch &arch,
                 llvm::CodeGenFileType fileType,
                 llvm::raw_pwrite_stream &stream) {
  auto machine = createTargetMachine(arch);
  if (!machine)
    return machine.takeError();
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, fileType))
    return llvm::createStringError("LLVM can't write this kind of file for " +
                                   arch.name);
  passes.run(module);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
mini::createTargetMachine(const Arch &arch) {
  initializeTargets();
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(arch.triple, error);
  if (!target)
    return llvm::createStringError(error);
  // LLVM only warns of a CPU that it doesn't know, and takes another.
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target->createMCSubtargetInfo(arch.triple, /*CPU=*/"", /*Features=*/""));
  if (!arch.cpu.empty() && !info->isCPUStringValid(arch.cpu))
    return llvm::createStringError("this LLVM doesn't know the architecture " +
                                   arch.name);
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(arch.triple, arch.cpu, arch.features,
                                  llvm::TargetOptions(), llvm::Reloc::PIC_));
}

llvm::Expected<std::string> mini::toAssembly(llvm::Module &module,
                                             const Arch &arch) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  if (llvm::Error error =
          emit(module, arch, llvm::CodeGenFileType::AssemblyFile, stream))
    return std::move(error);
  return text.str().str();
}

llvm::Expected<llvm::SmallVector<char, 0>> mini::toObject(llvm::Module &module,
                                                          const Arch &arch) {
  if (arch.platform == Platform::CUDA)
    return llvm::createStringError("LLVM makes no objects for " + arch.name +
                                   ": its driver takes PTX");
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  if (llvm::Error error =
          emit(module, arch, llvm::CodeGenFileType::ObjectFile, stream))
    return std::move(error);
  return object;
}
