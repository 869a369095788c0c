//===- Metadata.cpp - What a launcher must know of a kernel ---------------===//

#include "minitriton/Target/Target.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace mlir::mini;

namespace {

/// `f32`, or `*f32` for a pointer to it.
std::string spell(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto pointer = dyn_cast<PtrType>(type))
    stream << '*' << pointer.getPointee();
  else
    stream << type;
  return text;
}

} // namespace

std::string mini::describeKernels(ModuleOp module, const Arch &arch,
                                  int32_t threads) {
  auto kernels = nlohmann::ordered_json::array();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate())
      continue;
    auto arguments = nlohmann::ordered_json::array();
    for (Type type : function.getArgumentTypes())
      arguments.push_back(spell(type));
    kernels.push_back({{"name", function.getName().str()},
                       {"arch", arch.name},
                       {"threads", threads},
                       {"arguments", arguments}});
  }
  return kernels.dump(/*indent=*/2);
}
