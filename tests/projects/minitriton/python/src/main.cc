//===- main.cc - The extension module libminitriton -----------------------===//

#include "bindings.h"

#include "minitriton/Version.h"

PYBIND11_MODULE(libminitriton, m) {
  m.doc() = "minitriton's compiler: build or parse a module, run passes on it, "
            "make machine code of it.";
  m.attr("__version__") = MINITRITON_VERSION;
  pybind11::register_exception<minitriton::Error>(m, "Error",
                                                  PyExc_RuntimeError);
  minitriton::bindIR(m);
  minitriton::bindPasses(m);
  minitriton::bindTarget(m);
}
