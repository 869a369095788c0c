#ifndef MINITRITON_MINI_DIALECT_TD
#define MINITRITON_MINI_DIALECT_TD

include "mlir/IR/OpBase.td"

def Mini_Dialect : Dialect {
  let name = "mini";
  let cppNamespace = "::mlir::mini";
  let summary = "Element-wise kernels over blocks of elements";
  let description = [{
    A kernel is a public function. It runs as many *programs*, each of which
    handles one block; a block is a one-dimensional tensor. Arithmetic on blocks
    is the arith dialect's. What is here is what arith lacks: pointers, the
    program's position in the grid, and memory.

    `mini-distribute` shares each block out among the threads of a program;
    after it a tensor holds one thread's elements.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;

  let extraClassDeclaration = [{
    /// The module's attribute that says among how many threads its blocks are
    /// distributed; without it they are not.
    static constexpr ::llvm::StringLiteral getThreadsAttrName() {
      return "mini.threads";
    }
  }];
}

#endif // MINITRITON_MINI_DIALECT_TD
