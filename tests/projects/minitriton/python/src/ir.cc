//===- ir.cc - Contexts, modules, and what builds them --------------------===//

#include "bindings.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "minitriton/Target/Target.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <pybind11/stl.h>
#include <variant>
#include <vector>

namespace py = pybind11;
using namespace mlir;
using namespace minitriton;

namespace {

template <typename T> std::string print(const T &printable) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << printable;
  return text;
}

ContextPtr createContext() {
  DialectRegistry registry;
  registry.insert<mini::MiniDialect, arith::ArithDialect, func::FuncDialect>();
  mini::registerLLVMTranslations(registry);
  // One thread: the passes of one small kernel end before others have started.
  auto context =
      std::make_shared<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

Module parseModule(ContextPtr context, const std::string &text) {
  Diagnostics diagnostics(*context);
  auto op = parseSourceString<ModuleOp>(text, ParserConfig(context.get()));
  if (!op)
    diagnostics.raise("the module can't be parsed");
  return {std::move(context), std::move(op)};
}

Type parseTypeOf(MLIRContext &context, const std::string &text) {
  Diagnostics diagnostics(context);
  Type type = parseType(text, &context);
  if (!type)
    diagnostics.raise("the type can't be parsed");
  return type;
}

/// A module with one kernel, whose operations are appended one by one. Types
/// are given as MLIR writes them. The package's semantics.py sees to it that
/// operands are such that an operation can be made of them; `finish` verifies
/// the rest.
class KernelBuilder {
public:
  KernelBuilder(ContextPtr context, const std::string &name,
                const std::vector<std::string> &argumentTypes)
      : builder(context.get()) {
    module.context = std::move(context);
    module.op = ModuleOp::create(builder.getUnknownLoc());
    SmallVector<Type> types;
    for (const std::string &type : argumentTypes)
      types.push_back(parse(type));
    builder.setInsertionPointToEnd(module.op->getBody());
    function = create<func::FuncOp>(name, builder.getFunctionType(types, {}));
    builder.setInsertionPointToEnd(function.addEntryBlock());
  }

  /// Where in the Python source the next operations come from.
  void setLocation(const std::string &file, unsigned line) {
    location = FileLineColLoc::get(builder.getContext(), file, line, 1);
  }

  std::vector<Value> getArguments() {
    return {function.args_begin(), function.args_end()};
  }

  Value programId(unsigned axis) {
    std::optional<mini::Axis> symbol = mini::symbolizeAxis(axis);
    if (!symbol)
      throw Error("a grid has the axes 0, 1 and 2, not " +
                  std::to_string(axis));
    return create<mini::ProgramIdOp>(builder.getI32Type(), *symbol);
  }

  Value range(int32_t start, int32_t end) {
    // An empty range is refused in `finish`, by its verifier.
    int64_t length = static_cast<int64_t>(end) - start;
    auto type = RankedTensorType::get({std::max<int64_t>(length, 0)},
                                      builder.getI32Type());
    return create<mini::RangeOp>(type, start, end);
  }

  Value splat(Value scalar, int64_t length) {
    return create<mini::SplatOp>(
        RankedTensorType::get({length}, scalar.getType()), scalar);
  }

  /// A scalar, or a block with all elements the same.
  Value constant(std::variant<int64_t, double> value, const std::string &text) {
    Type type = parse(text);
    Type element = getElementTypeOrSelf(type);
    TypedAttr attribute = std::visit(
        [&](auto number) -> TypedAttr {
          if (isa<FloatType>(element))
            return builder.getFloatAttr(element, static_cast<double>(number));
          return builder.getIntegerAttr(element, static_cast<int64_t>(number));
        },
        value);
    if (auto block = dyn_cast<ShapedType>(type))
      attribute = DenseElementsAttr::get(block, attribute);
    return create<arith::ConstantOp>(attribute);
  }

  Value addptr(Value pointer, Value offset) {
    return create<mini::AddPtrOp>(pointer.getType(), pointer, offset);
  }

  Value load(Value pointer, std::optional<Value> mask,
             std::optional<Value> other) {
    return create<mini::LoadOp>(mini::getPointedToType(pointer.getType()),
                                pointer, mask.value_or(Value()),
                                other.value_or(Value()));
  }

  void store(Value pointer, Value value, std::optional<Value> mask) {
    create<mini::StoreOp>(pointer, value, mask.value_or(Value()));
  }

  /// An operation of the arith dialect by its name, `addf`. Its result has the
  /// type `type`, the first operand's if that isn't given.
  Value arithmetic(const std::string &name, const std::vector<Value> &operands,
                   std::optional<std::string> type) {
    std::string fullName = "arith." + name;
    if (!RegisteredOperationName::lookup(fullName, builder.getContext()))
      throw Error("there is no operation " + fullName);
    OperationState state(location, fullName, operands,
                         type ? parse(*type) : operands.at(0).getType(), {});
    return builder.create(state)->getResult(0);
  }

  /// `predicate` is one of arith.cmpi (`slt`) or, for floats, arith.cmpf
  /// (`olt`).
  Value compare(const std::string &predicate, Value left, Value right) {
    if (isa<FloatType>(getElementTypeOrSelf(left))) {
      auto symbol = arith::symbolizeCmpFPredicate(predicate);
      if (!symbol)
        throw Error("arith.cmpf has no predicate " + predicate);
      return create<arith::CmpFOp>(*symbol, left, right);
    }
    auto symbol = arith::symbolizeCmpIPredicate(predicate);
    if (!symbol)
      throw Error("arith.cmpi has no predicate " + predicate);
    return create<arith::CmpIOp>(*symbol, left, right);
  }

  /// The whole module, verified. Nothing can be appended after it.
  Module finish() {
    Diagnostics diagnostics(*module.context);
    create<func::ReturnOp>();
    if (failed(verify(*module.op)))
      diagnostics.raise("the kernel is invalid");
    return std::move(module);
  }

private:
  template <typename Op, typename... Args> Op create(Args &&...args) {
    return builder.create<Op>(location, std::forward<Args>(args)...);
  }

  Type parse(const std::string &text) {
    return parseTypeOf(*builder.getContext(), text);
  }

  OpBuilder builder;
  Module module;
  Location location = builder.getUnknownLoc();
  func::FuncOp function;
};

} // namespace

Diagnostics::Diagnostics(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return success();
        if (!text.empty())
          text += "\n";
        if (auto at = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
          text +=
              (at.getFilename().getValue() + ":" + Twine(at.getLine()) + ": ")
                  .str();
        text += diagnostic.str();
        return success();
      }) {}

void Diagnostics::raise(const std::string &what) const {
  throw Error(text.empty() ? what : text);
}

void minitriton::bindIR(py::module_ &m) {
  py::class_<MLIRContext, ContextPtr>(m, "Context")
      .def(py::init(&createContext));

  py::class_<Module>(m, "Module")
      .def_static("parse", &parseModule, py::arg("context"), py::arg("text"))
      .def("__str__", [](const Module &self) { return print(self.op.get()); });

  py::class_<Value>(m, "Value")
      .def_property_readonly(
          "type", [](const Value &self) { return print(self.getType()); });

  // Values point into the builder's module.
  py::class_<KernelBuilder>(m, "KernelBuilder")
      .def(py::init<ContextPtr, const std::string &,
                    const std::vector<std::string> &>(),
           py::arg("context"), py::arg("name"), py::arg("argument_types"))
      .def("set_location", &KernelBuilder::setLocation, py::arg("file"),
           py::arg("line"))
      .def("arguments", &KernelBuilder::getArguments)
      .def("program_id", &KernelBuilder::programId, py::arg("axis"))
      .def("range", &KernelBuilder::range, py::arg("start"), py::arg("end"))
      .def("splat", &KernelBuilder::splat, py::arg("scalar"), py::arg("length"))
      .def("constant", &KernelBuilder::constant, py::arg("value"),
           py::arg("type"))
      .def("addptr", &KernelBuilder::addptr, py::arg("pointer"),
           py::arg("offset"))
      .def("load", &KernelBuilder::load, py::arg("pointer"), py::arg("mask"),
           py::arg("other"))
      .def("store", &KernelBuilder::store, py::arg("pointer"), py::arg("value"),
           py::arg("mask"))
      .def("arithmetic", &KernelBuilder::arithmetic, py::arg("name"),
           py::arg("operands"), py::arg("type") = std::nullopt)
      .def("compare", &KernelBuilder::compare, py::arg("predicate"),
           py::arg("left"), py::arg("right"))
      .def("finish", &KernelBuilder::finish);
}
