//===- minitriton-translate.cpp - Machine code of a module ----------------===//
//
// Takes what a front end makes, and lowers it on the way.
//
//===----------------------------------------------------------------------===//

#include "RegisterMinitriton.h"

#include "minitriton/Target/Target.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::mini;

namespace {

// LLVM's libraries have options of shorter names.
llvm::cl::opt<std::string>
    archName("mini-arch", llvm::cl::desc("Machine to make code for"),
             llvm::cl::value_desc("host|sm_<number>|gfx<number>"),
             llvm::cl::init("host"));
llvm::cl::opt<int32_t> threads("mini-threads",
                               llvm::cl::desc("Threads of one program"),
                               llvm::cl::init(128));

void registerDialects(DialectRegistry &registry) {
  registerMinitritonDialects(registry);
  registerLLVMTranslations(registry);
}

LogicalResult report(ModuleOp module, llvm::Error error) {
  // By location: of an operation MLIR prints the whole text too.
  return emitError(module.getLoc(), llvm::toString(std::move(error)));
}

LogicalResult writeMetadata(ModuleOp module, llvm::raw_ostream &stream) {
  auto arch = Arch::parse(archName);
  if (!arch)
    return report(module, arch.takeError());
  stream << describeKernels(module, *arch, threads) << "\n";
  return success();
}

enum class Output { LLVMIR, Assembly, Object };

LogicalResult write(ModuleOp module, llvm::raw_ostream &stream, Output output) {
  auto arch = Arch::parse(archName);
  if (!arch)
    return report(module, arch.takeError());
  PassManager passes(module.getContext());
  buildLoweringPipeline(passes, arch->platform, threads);
  if (failed(passes.run(module)))
    return failure();
  llvm::LLVMContext context;
  auto translated = toLLVMIR(module, *arch, context);
  if (!translated)
    return report(module, translated.takeError());

  switch (output) {
  case Output::LLVMIR:
    stream << **translated;
    return success();
  case Output::Assembly: {
    auto text = toAssembly(**translated, *arch);
    if (!text)
      return report(module, text.takeError());
    stream << *text;
    return success();
  }
  case Output::Object: {
    auto object = toObject(**translated, *arch);
    if (!object)
      return report(module, object.takeError());
    stream << llvm::StringRef(object->data(), object->size());
    return success();
  }
  }
  llvm_unreachable("all outputs are handled");
}

void registerOutput(StringRef name, StringRef description, Output output) {
  TranslateFromMLIRRegistration(
      name, description,
      [output](ModuleOp module, llvm::raw_ostream &stream) {
        return write(module, stream, output);
      },
      registerDialects);
}

} // namespace

int main(int argc, char **argv) {
  registerOutput("mini-to-llvmir", "Lower, and write optimised LLVM IR",
                 Output::LLVMIR);
  registerOutput("mini-to-asm", "Lower, and write PTX or assembly",
                 Output::Assembly);
  registerOutput("mini-to-object", "Lower, and write an unlinked object",
                 Output::Object);
  TranslateFromMLIRRegistration("mini-to-metadata",
                                "Describe the kernels as JSON", writeMetadata,
                                registerDialects);
  return failed(mlirTranslateMain(argc, argv, "minitriton's code generator\n"));
}
