//===- Arch.h - The machines we make code for ------------------*- C++ -*-===//

#ifndef MINITRITON_TARGET_ARCH_H
#define MINITRITON_TARGET_ARCH_H

#include "minitriton/Conversion/MiniToLLVM/Platform.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace mlir::mini {

/// A machine, and what LLVM calls it.
struct Arch {
  /// `host`, or the vendor's own name of a GPU: `sm_90`, `gfx942`.
  std::string name;
  Platform platform;
  std::string triple;
  std::string cpu;
  std::string features;

  /// The machine of that name. Fails if the name has no known form; whether
  /// LLVM knows that GPU shows when code is made for it.
  static llvm::Expected<Arch> parse(llvm::StringRef name);
};

} // namespace mlir::mini

#endif // MINITRITON_TARGET_ARCH_H
