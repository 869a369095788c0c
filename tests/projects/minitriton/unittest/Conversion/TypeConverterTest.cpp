//===- TypeConverterTest.cpp - What the types become in LLVM --------------===//

#include "minitriton/Conversion/MiniToLLVM/TypeConverter.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::mini;

namespace mlir::mini {

// How googletest shows a parameter.
void PrintTo(Platform platform, std::ostream *stream) {
  switch (platform) {
  case Platform::CPU:
    *stream << "cpu";
    return;
  case Platform::CUDA:
    *stream << "cuda";
    return;
  case Platform::ROCm:
    *stream << "rocm";
    return;
  }
}

} // namespace mlir::mini

namespace {

class TypeConverterTest : public ::testing::TestWithParam<Platform> {
protected:
  TypeConverterTest() : builder(&context), converter(&context, GetParam()) {
    context.loadDialect<MiniDialect, LLVM::LLVMDialect>();
  }

  Type pointer() {
    return LLVM::LLVMPointerType::get(&context,
                                      GetParam() == Platform::CPU ? 0 : 1);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  Builder builder;
  MiniTypeConverter converter;
};

TEST_P(TypeConverterTest, PointersPointIntoGlobalMemory) {
  EXPECT_EQ(converter.convertType(PtrType::get(builder.getF32Type())),
            pointer());
}

TEST_P(TypeConverterTest, BlocksBecomeVectors) {
  auto block = RankedTensorType::get({4}, builder.getF32Type());
  EXPECT_EQ(converter.convertType(block),
            VectorType::get({4}, builder.getF32Type()));
}

TEST_P(TypeConverterTest, BlocksOfPointersBecomeVectorsToo) {
  auto block = RankedTensorType::get({4}, PtrType::get(builder.getF16Type()));
  EXPECT_EQ(converter.convertType(block),
            LLVM::LLVMFixedVectorType::get(pointer(), 4));
}

TEST_P(TypeConverterTest, MatricesAreRefused) {
  auto matrix = RankedTensorType::get({2, 2}, builder.getF32Type());
  EXPECT_FALSE(converter.convertType(matrix));
}

INSTANTIATE_TEST_SUITE_P(Platforms, TypeConverterTest,
                         ::testing::Values(Platform::CPU, Platform::CUDA,
                                           Platform::ROCm),
                         [](const auto &info) {
                           return ::testing::PrintToString(info.param);
                         });

} // namespace
