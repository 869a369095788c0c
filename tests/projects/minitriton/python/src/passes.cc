//===- passes.cc - Run passes on a module ---------------------------------===//

#include "bindings.h"

#include "minitriton/Conversion/MiniToLLVM/Passes.h"
#include "minitriton/Dialect/Mini/Transforms/Passes.h"
#include "minitriton/Target/Arch.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

namespace py = pybind11;
using namespace mlir;
using namespace minitriton;

namespace {

void run(Module &module, PassManager &passes) {
  Diagnostics diagnostics(*module.context);
  if (failed(passes.run(*module.op)))
    diagnostics.raise("a pass failed");
}

void runPipeline(Module &module, const std::string &pipeline) {
  PassManager passes(module.context.get());
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (failed(parsePassPipeline(pipeline, passes, stream)))
    throw Error(error);
  run(module, passes);
}

void lower(Module &module, const std::string &arch, int32_t threads) {
  PassManager passes(module.context.get());
  mini::buildLoweringPipeline(passes, unwrap(mini::Arch::parse(arch)).platform,
                              threads);
  run(module, passes);
}

} // namespace

void minitriton::bindPasses(py::module_ &m) {
  registerTransformsPasses();
  mini::registerMiniTransformsPasses();
  mini::registerMiniToLLVMPasses();
  mini::registerLoweringPipeline();

  m.def("run_passes", &runPipeline, py::arg("module"), py::arg("pipeline"),
        "Changes the module; a pipeline is written as `canonicalize,cse`.");
  m.def("lower", &lower, py::arg("module"), py::arg("arch"), py::arg("threads"),
        "Changes the module into one of LLVM's dialect.");
}
