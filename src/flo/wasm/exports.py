"""Calls the exported functions of an instance, without the overhead of the package.

The package's own way of calling a function asks for its type each time and converts value by value:
most of the time of a short guest. All functions of the ABI take numbers of 32 bits and return one
number or nothing, which wasmtime itself makes sure of at every call.
"""

from ctypes import POINTER, byref, create_string_buffer
from functools import lru_cache
from typing import Any

import wasmtime
from wasmtime import _ffi as ffi

_INT_32 = ffi.WASMTIME_I32.value
_Trap = POINTER(ffi.wasm_trap_t)
_ARGUMENTS = tuple(ffi.wasmtime_val_t * count for count in range(3))
_RESULT = ffi.wasmtime_val_t * 1


class Exports:
    """Of one instance, for as long as its store is open."""

    def __init__(self, store: wasmtime.Store, instance: wasmtime.Instance) -> None:
        self._context = store._context()
        self._instance = instance._instance

    def memory(self, name: str) -> wasmtime.Memory:
        return wasmtime.Memory._from_raw(self._find(name).of.memory)

    def ask(self, name: str, *arguments: int) -> int:
        """What the function returns; a Trap or a WasmtimeError is raised."""
        result = _RESULT()
        self._call(name, arguments, result, 1)
        value: Any = result[0]
        return int(value.of.i32 if value.kind == _INT_32 else value.of.i64)

    def tell(self, name: str) -> None:
        """Call a function that takes and returns nothing."""
        self._call(name, (), _RESULT(), 0)

    def _call(self, name: str, arguments: tuple[int, ...], results: Any, count: int) -> None:
        given = _ARGUMENTS[len(arguments)]()
        for place, argument in zip(given, arguments, strict=True):
            place.kind = _INT_32
            place.of.i32 = argument
        trap = _Trap()
        function = self._find(name).of.func
        error = ffi.wasmtime_func_call(
            self._context, byref(function), given, len(arguments), results, count, byref(trap)
        )
        if error:
            raise wasmtime.WasmtimeError._from_ptr(error)
        if trap:
            raise wasmtime.Trap._from_ptr(trap)

    def _find(self, name: str) -> Any:
        found = ffi.wasmtime_extern_t()
        buffer, length = _encoded(name)
        if not ffi.wasmtime_instance_export_get(
            self._context, byref(self._instance), buffer, length, byref(found)
        ):
            raise wasmtime.WasmtimeError(f"there is no export {name!r}")
        return found


@lru_cache(maxsize=1_024)
def _encoded(name: str) -> tuple[Any, int]:
    data = name.encode()
    return create_string_buffer(data), len(data)
