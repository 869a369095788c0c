//===- LLVMIR.cpp - From LLVM's dialect to optimised LLVM IR --------------===//

#include "MachineCode.h"

#include "minitriton/Target/Target.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Passes/PassBuilder.h"

using namespace mlir;
using namespace mlir::mini;

namespace {

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

} // namespace

void mini::registerLLVMTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  registerROCDLDialectTranslation(registry);
}

llvm::Expected<std::unique_ptr<llvm::Module>>
mini::toLLVMIR(ModuleOp module, const Arch &arch, llvm::LLVMContext &context) {
  auto machine = createTargetMachine(arch);
  if (!machine)
    return machine.takeError();
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(module, context, "minitriton");
  if (!translated)
    return llvm::createStringError("the module can't be translated to LLVM IR");
  translated->setTargetTriple(arch.triple);
  translated->setDataLayout((*machine)->createDataLayout());
  optimize(*translated, **machine);
  return translated;
}
