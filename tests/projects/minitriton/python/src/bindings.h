//===- bindings.h - What the parts of the extension share ------*- C++ -*-===//

#ifndef MINITRITON_PYTHON_SRC_BINDINGS_H
#define MINITRITON_PYTHON_SRC_BINDINGS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <pybind11/pybind11.h>
#include <stdexcept>
#include <string>

namespace minitriton {

/// `libminitriton.Error` in Python.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Modules own their context, so that Python may drop both in any order.
using ContextPtr = std::shared_ptr<mlir::MLIRContext>;

struct Module {
  ContextPtr context;
  mlir::OwningOpRef<mlir::ModuleOp> op;
};

/// Keeps what MLIR reports while it lives, and throws it.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext &context);

  /// Throws `Error` with all errors so far, or `what` if none were reported.
  [[noreturn]] void raise(const std::string &what) const;

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

/// The value, or `Error`.
template <typename T> T unwrap(llvm::Expected<T> expected) {
  if (!expected)
    throw Error(llvm::toString(expected.takeError()));
  return std::move(*expected);
}

void bindIR(pybind11::module_ &m);
void bindPasses(pybind11::module_ &m);
void bindTarget(pybind11::module_ &m);

} // namespace minitriton

#endif // MINITRITON_PYTHON_SRC_BINDINGS_H
