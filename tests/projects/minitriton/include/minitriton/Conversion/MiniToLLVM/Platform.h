//===- Platform.h - What kernels run on ------------------------*- C++ -*-===//

#ifndef MINITRITON_CONVERSION_MINITOLLVM_PLATFORM_H
#define MINITRITON_CONVERSION_MINITOLLVM_PLATFORM_H

namespace mlir::mini {

enum class Platform { CPU, CUDA, ROCm };

/// The address space of the memory that kernels are handed: `global` has the
/// same number with both vendors, a CPU has but one space.
inline unsigned getGlobalAddressSpace(Platform platform) {
  return platform == Platform::CPU ? 0 : 1;
}

} // namespace mlir::mini

#endif // MINITRITON_CONVERSION_MINITOLLVM_PLATFORM_H
