#ifndef MINITRITON_MINI_TO_LLVM_PASSES_TD
#define MINITRITON_MINI_TO_LLVM_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertMiniToLLVM : Pass<"convert-mini-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Lower a distributed module to LLVM's dialect";
  let description = [{
    Tensors become vectors, accesses to memory masked gathers and scatters,
    which LLVM expands where a target has none, and public functions kernels.

    A CPU has no registers that say which program runs: there a kernel gets four
    more i32 arguments, the program's x, y and z and the thread.
  }];
  let options = [
    Option<"platform", "platform", "::mlir::mini::Platform",
           /*default=*/"::mlir::mini::Platform::CUDA",
           "What the kernels run on", [{::llvm::cl::values(
             clEnumValN(::mlir::mini::Platform::CPU, "cpu", "the host"),
             clEnumValN(::mlir::mini::Platform::CUDA, "cuda", "NVIDIA's GPUs"),
             clEnumValN(::mlir::mini::Platform::ROCm, "rocm", "AMD's GPUs")
           )}]>
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect",
    "::mlir::ROCDL::ROCDLDialect"
  ];
}

#endif // MINITRITON_MINI_TO_LLVM_PASSES_TD
