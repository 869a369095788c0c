//===- Arch.cpp - The machines we make code for ---------------------------===//

#include "minitriton/Target/Arch.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir::mini;

namespace {

/// True for `sm_90` and `sm_90a`.
bool isNvidia(llvm::StringRef name) {
  if (!name.consume_front("sm_"))
    return false;
  name.consume_back("a");
  return name.size() >= 2 && llvm::all_of(name, llvm::isDigit);
}

/// True for `gfx942` and `gfx90a`.
bool isAmd(llvm::StringRef name) {
  return name.consume_front("gfx") && name.size() >= 3 &&
         llvm::all_of(name, llvm::isHexDigit);
}

} // namespace

llvm::Expected<Arch> Arch::parse(llvm::StringRef name) {
  // The host's code uses what all CPUs of its kind have, so that it is the same
  // on all of them. Half-precision numbers, which x86's first ones lack, would
  // need the compiler's runtime library.
  if (name == "host") {
    std::string triple = llvm::sys::getProcessTriple();
    const char *features = llvm::Triple(triple).isX86() ? "+f16c" : "";
    return Arch{name.str(), Platform::CPU, triple, "", features};
  }
  // The PTX version is CUDA 12.0's, which knows all of these GPUs' instructions
  // that we use; drivers read older versions than their own.
  if (isNvidia(name))
    return Arch{name.str(), Platform::CUDA, "nvptx64-nvidia-cuda", name.str(),
                "+ptx80"};
  if (isAmd(name))
    return Arch{name.str(), Platform::ROCm, "amdgcn-amd-amdhsa", name.str(),
                ""};
  return llvm::createStringError(
      "unknown architecture '%s': expected host, sm_<number> or gfx<number>",
      name.str().c_str());
}
