"""From a kernel's Python source to a module of the mini dialect."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Mapping
from types import FunctionType
from typing import Any, Callable, Optional, Union

from minitriton import language
from minitriton._C import libminitriton
from minitriton.semantics import Emitter, Operand, SemanticError, Value
from minitriton.types import ElementType, Type

#: What a parameter annotated with `constexpr` may be.
Constant = Union[bool, int, float, ElementType]

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


class CompileError(Exception):
    """A kernel can't be compiled. The message begins with the file and line."""


def build_module(
    function: Callable[..., None], arguments: Mapping[str, Type], constants: Mapping[str, Constant]
) -> libminitriton.Module:
    """A module of one kernel, in the mini dialect.

    :param arguments: the types of the parameters that aren't constants, in their order.
    :param constants: the values of the others.
    :raises CompileError: the kernel uses what the language hasn't.
    """
    assert isinstance(function, FunctionType)
    source, first_line = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(source)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)

    file = function.__code__.co_filename
    builder = libminitriton.KernelBuilder(
        libminitriton.Context(), function.__name__, [type_.name for type_ in arguments.values()]
    )
    variables: dict[str, Any] = dict(constants)
    for (name, type_), handle in zip(arguments.items(), builder.arguments()):
        variables[name] = Value(handle, type_, None)
    walker = _Walker(Emitter(builder), function.__globals__, variables)
    for statement in definition.body:
        try:
            line = first_line + statement.lineno - 1
            builder.set_location(file, line)
            walker.visit(statement)
        except SemanticError as error:
            line = first_line + (walker.line or statement.lineno) - 1
            raise CompileError(f"{file}:{line}: {error}") from None
    try:
        return builder.finish()
    except libminitriton.Error as error:
        raise CompileError(str(error)) from None


class _Walker(ast.NodeVisitor):
    """Evaluates statements for the operations that they append."""

    def __init__(
        self, emitter: Emitter, outer: Mapping[str, Any], variables: dict[str, Any]
    ) -> None:
        self._emitter = emitter
        self._outer = outer
        self._variables = variables
        #: Of the innermost node that was visited last: where an error is.
        self.line: Optional[int] = None

    def visit(self, node: ast.AST) -> Any:
        self.line = getattr(node, "lineno", self.line)
        return super().visit(node)

    def generic_visit(self, node: ast.AST) -> Any:
        raise SemanticError(f"kernels have no {type(node).__name__}")

    # Statements

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            raise SemanticError("assign to one name at a time")
        self._variables[node.targets[0].id] = self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise SemanticError("assign to one name at a time")
        target = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        self._variables[node.target.id] = self._binary(node.op, target, node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if not is_docstring:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        for statement in node.body if self._known(node.test) else node.orelse:
            self.visit(statement)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    # Expressions

    def visit_Constant(self, node: ast.Constant) -> Operand:
        if not isinstance(node.value, (bool, int, float)):
            raise SemanticError(f"kernels know numbers only, not {node.value!r}")
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self._variables:
            return self._variables[node.id]
        for scope in (self._outer, vars(builtins)):
            if node.id in scope:
                return scope[node.id]
        raise SemanticError(f"{node.id} has no value here")

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.visit(node.value)
        if not inspect.ismodule(owner):
            raise SemanticError(f"values have no attribute {node.attr}")
        return getattr(owner, node.attr)

    def visit_BinOp(self, node: ast.BinOp) -> Operand:
        return self._binary(node.op, node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Operand:
        if isinstance(node.op, ast.Not):
            return not self._known(node.operand)
        if not isinstance(node.op, ast.USub):
            return self.generic_visit(node.op)
        return self._emitter.negate(self._operand(node.operand))

    def visit_Compare(self, node: ast.Compare) -> Operand:
        symbol = _COMPARISONS.get(type(node.ops[0]))
        if symbol is None or len(node.ops) != 1:
            raise SemanticError("compare two values at a time, by < <= > >= == !=")
        left, right = self._operand(node.left), self._operand(node.comparators[0])
        return self._emitter.compare(symbol, left, right)

    def visit_IfExp(self, node: ast.IfExp) -> Operand:
        return self.visit(node.body if self._known(node.test) else node.orelse)

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.visit(node.func)
        name = language.BUILTINS.get(function) if inspect.isfunction(function) else None
        if name is None:
            raise SemanticError(f"kernels can't call {ast.unparse(node.func)}")
        positional = [self.visit(argument) for argument in node.args]
        keywords = {keyword.arg or "**": self.visit(keyword.value) for keyword in node.keywords}
        try:
            inspect.signature(function).bind(*positional, **keywords)
        except TypeError as error:
            raise SemanticError(f"{name}: {error}") from None
        return getattr(self._emitter, name)(*positional, **keywords)

    def _binary(self, operator: ast.operator, left: ast.expr, right: ast.expr) -> Operand:
        symbol = _BINARY.get(type(operator))
        if symbol is None:
            return self.generic_visit(operator)
        return self._emitter.binary(symbol, self._operand(left), self._operand(right))

    def _operand(self, node: ast.expr) -> Operand:
        operand = self.visit(node)
        if not isinstance(operand, (Value, bool, int, float)):
            raise SemanticError(f"{ast.unparse(node)} is no value")
        return operand

    def _known(self, node: ast.expr) -> bool:
        condition = self.visit(node)
        if isinstance(condition, Value):
            raise SemanticError(
                f"{ast.unparse(node)} isn't known when the kernel is compiled: use where"
            )
        return bool(condition)
