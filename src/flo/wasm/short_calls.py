"""Makes short calls into wasmtime without letting go of the interpreter.

The package lets go of the interpreter around every call, and has to win it back afterwards: some
fifty times for one guest, each time in a race with the loop and the other guests. Calls that
instantiate a guest, run it or free its memory still let go.
"""

from ctypes import PyDLL
from typing import Any

from wasmtime import _bindings, _ffi

SHORT = (
    "wasmtime_caller_context",
    "wasmtime_caller_export_get",
    "wasm_functype_delete",
    "wasm_functype_params",
    "wasm_functype_results",
    "wasm_valtype_delete",
    "wasm_valtype_kind",
    "wasm_valtype_new",
    "wasmtime_context_get_fuel",
    "wasmtime_context_set_epoch_deadline",
    "wasmtime_context_set_fuel",
    "wasmtime_func_type",
    "wasmtime_instance_export_get",
    "wasmtime_memory_data",
    "wasmtime_memory_data_size",
    "wasmtime_store_context",
    "wasmtime_store_limiter",
    "wasmtime_store_new",
    "wasmtime_val_unroot",
)


def keep_the_interpreter() -> None:
    """Bind the short calls anew, for the whole process; may be called twice."""
    library: Any = PyDLL(str(_ffi.filename))
    for name in SHORT:
        loose = getattr(_bindings, f"_{name}")
        firm = getattr(library, name)
        firm.restype, firm.argtypes = loose.restype, loose.argtypes
        setattr(_bindings, f"_{name}", firm)
