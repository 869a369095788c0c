//===- minitriton-opt.cpp - Run passes on a module ------------------------===//

#include "RegisterMinitriton.h"

#include "minitriton/Version.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &stream) {
    stream << "\n  minitriton " MINITRITON_VERSION "\n";
  });
  mlir::DialectRegistry registry;
  mlir::mini::registerMinitritonDialects(registry);
  mlir::mini::registerMinitritonPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "minitriton's optimizer\n", registry));
}
