//===- ArchTest.cpp - Names of machines -----------------------------------===//

#include "minitriton/Target/Arch.h"

#include <gtest/gtest.h>

using namespace mlir::mini;

namespace {

TEST(ArchTest, KnowsEachVendorsNames) {
  struct {
    const char *name;
    Platform platform;
    const char *cpu;
  } cases[] = {
      {"host", Platform::CPU, ""},
      {"sm_80", Platform::CUDA, "sm_80"},
      {"sm_90a", Platform::CUDA, "sm_90a"},
      {"gfx90a", Platform::ROCm, "gfx90a"},
      {"gfx942", Platform::ROCm, "gfx942"},
  };
  for (const auto &expected : cases) {
    auto arch = Arch::parse(expected.name);
    ASSERT_TRUE(static_cast<bool>(arch)) << llvm::toString(arch.takeError());
    EXPECT_EQ(arch->name, expected.name);
    EXPECT_EQ(arch->platform, expected.platform);
    EXPECT_EQ(arch->cpu, expected.cpu);
    EXPECT_FALSE(arch->triple.empty());
  }
}

TEST(ArchTest, SaysWhatItExpects) {
  for (const char *name : {"", "sm_", "sm_9x", "gfx", "gfx9zz", "90", "H100"}) {
    auto arch = Arch::parse(name);
    ASSERT_FALSE(static_cast<bool>(arch)) << name;
    EXPECT_EQ(llvm::toString(arch.takeError()),
              "unknown architecture '" + std::string(name) +
                  "': expected host, sm_<number> or gfx<number>");
  }
}

} // namespace
