"""Kernels as Python sees them: compile for the arguments at hand, and launch."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Callable

from minitriton import language
from minitriton.compiler import CompiledKernel, compile_kernel
from minitriton.runtime.driver import Buffer, Driver, Launch

DEFAULT_THREADS = 128


def jit(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a function. It is compiled when it is launched, once for each combination of
    types, constants and machine."""
    return Kernel(function)


class Kernel:
    """A function decorated with `jit`."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._signature = inspect.signature(function, eval_str=True)
        self._constants = {
            name
            for name, parameter in self._signature.parameters.items()
            if parameter.annotation is language.constexpr
        }
        self._launches: dict[Any, Launch] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{self.__name__} is a kernel: launch it as {self.__name__}[grid](...)")

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        """What launches the kernel over a grid of one to three dimensions. It takes the kernel's
        arguments and `threads`, the threads of one program."""
        if not 1 <= len(grid) <= 3:
            raise ValueError(f"a grid has one to three dimensions, not {len(grid)}")
        x, y, z = (*grid, 1, 1)[:3]

        def launch(*args: Any, threads: int = DEFAULT_THREADS, **kwargs: Any) -> None:
            self._launch((x, y, z), threads, args, kwargs)

        return launch

    def compile(
        self,
        arguments: dict[str, str],
        constants: dict[str, Any],
        arch: str,
        threads: int = DEFAULT_THREADS,
    ) -> CompiledKernel:
        """Compile without launching; see `compile_kernel`."""
        return compile_kernel(self.function, arguments, constants, arch, threads)

    def _launch(
        self, grid: tuple[int, int, int], threads: int, args: Any, kwargs: dict[str, Any]
    ) -> None:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        constants = {k: v for k, v in bound.arguments.items() if k in self._constants}
        values = {k: v for k, v in bound.arguments.items() if k not in self._constants}
        types = {name: _type_of(name, value) for name, value in values.items()}
        driver = _driver_of(values.values())

        # By type too: 2 equals 2.0, but makes another kernel.
        exact_constants = [(name, type(value), value) for name, value in constants.items()]
        key = (driver, threads, *types.items(), *exact_constants)
        if key not in self._launches:
            compiled = self.compile(types, constants, driver.arch, threads)
            self._launches[key] = driver.load(compiled)
        self._launches[key](grid, list(values.values()))


def _type_of(name: str, value: Any) -> str:
    if isinstance(value, Buffer):
        return f"*{value.element}"
    if isinstance(value, float):
        return "f32"
    if isinstance(value, int) and not isinstance(value, bool):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    raise TypeError(f"{name}: expected a number or an array of a driver, got {type(value)}")


def _driver_of(values: Any) -> Driver:
    drivers = {id(v.driver): v.driver for v in values if isinstance(v, Buffer)}
    if len(drivers) != 1:
        raise TypeError(f"a kernel takes arrays of one driver, not of {len(drivers)}")
    return next(iter(drivers.values()))
