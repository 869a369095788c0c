//===- target.cc - Machine code -------------------------------------------===//

#include "bindings.h"

#include "minitriton/Target/Target.h"
#include "llvm/Support/raw_ostream.h"

namespace py = pybind11;
using namespace mlir;
using namespace minitriton;

namespace {

/// A lowered module as LLVM IR.
struct Translated {
  Translated(Module &module, const std::string &archName)
      : arch(unwrap(mini::Arch::parse(archName))) {
    Diagnostics diagnostics(*module.context);
    auto translated = mini::toLLVMIR(*module.op, arch, context);
    if (!translated)
      diagnostics.raise(llvm::toString(translated.takeError()));
    ir = std::move(*translated);
  }

  mini::Arch arch;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir;
};

std::string toLLVMIR(Module &module, const std::string &arch) {
  Translated translated(module, arch);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << *translated.ir;
  return text;
}

std::string toAssembly(Module &module, const std::string &arch) {
  Translated translated(module, arch);
  return unwrap(mini::toAssembly(*translated.ir, translated.arch));
}

py::bytes toObject(Module &module, const std::string &arch) {
  Translated translated(module, arch);
  llvm::SmallVector<char, 0> object =
      unwrap(mini::toObject(*translated.ir, translated.arch));
  return py::bytes(object.data(), object.size());
}

std::string describe(Module &module, const std::string &arch, int32_t threads) {
  return mini::describeKernels(*module.op, unwrap(mini::Arch::parse(arch)),
                               threads);
}

} // namespace

void minitriton::bindTarget(py::module_ &m) {
  m.def("to_llvmir", &toLLVMIR, py::arg("lowered"), py::arg("arch"));
  m.def("to_assembly", &toAssembly, py::arg("lowered"), py::arg("arch"));
  m.def("to_object", &toObject, py::arg("lowered"), py::arg("arch"));
  m.def("describe_kernels", &describe, py::arg("module"), py::arg("arch"),
        py::arg("threads"));

  py::class_<mini::HostKernels>(m, "HostKernels",
                                "Kernels in this process's memory.")
      .def(py::init([](Module &lowered) {
             return unwrap(mini::HostKernels::compile(*lowered.op));
           }),
           py::arg("lowered"))
      .def(
          "address",
          [](mini::HostKernels &self, const std::string &kernel) {
            return reinterpret_cast<uintptr_t>(unwrap(self.lookup(kernel)));
          },
          py::arg("kernel"), "Valid as long as this object.");
}
