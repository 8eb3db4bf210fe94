"""Compiles a module in a process of its own, which can be ended when it takes too long.

A compiler cannot be interrupted, and some modules of a few kilobytes keep it busy for minutes. So
whatever is not tiny is compiled elsewhere, within a time limit, and comes back as machine code:

    Modules ── bytes ──▸ python -P -m flo.wasm.compiler ── its code, or what is wrong ──▸ Modules
"""

import subprocess
import sys

import wasmtime

from flo.model.errors import Invalid, TooLarge, Unexpected
from flo.wasm.engine import engine_config

COMPILE_SECONDS_MAX = 20
HERE_LENGTH_MAX = 4 * 1024
"""What is no longer than this is compiled at once: the worst of it takes a fraction of a second."""

_REFUSED = 3


def compile_module(
    engine: wasmtime.Engine, wasm: bytes, seconds_max: float = COMPILE_SECONDS_MAX
) -> wasmtime.Module:
    """The module; Invalid if it does not compile, TooLarge if that takes too long."""
    if len(wasm) <= HERE_LENGTH_MAX:
        try:
            return wasmtime.Module(engine, wasm)
        except wasmtime.WasmtimeError as error:
            raise Invalid(str(error), code="wasm_invalid") from None
    return wasmtime.Module.deserialize(engine, _compiled_elsewhere(wasm, seconds_max))


def _compiled_elsewhere(wasm: bytes, seconds_max: float) -> bytes:
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "flo.wasm.compiler"],
            input=wasm,
            capture_output=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TooLarge(
            f"expected a module that is compiled within {seconds_max} seconds",
            code="wasm_too_large",
        ) from None
    message = done.stderr.decode(errors="replace")
    if done.returncode == _REFUSED:
        raise Invalid(message, code="wasm_invalid")
    if done.returncode < 0:
        raise TooLarge(
            f"expected a module that the compiler survives; it ended by signal {-done.returncode}",
            code="wasm_too_large",
        )
    if done.returncode != 0:
        raise Unexpected(f"the compiler ended with {done.returncode}: {message}")
    return done.stdout


def main() -> int:
    """Compile what comes in, and put out the machine code."""
    try:
        module = wasmtime.Module(wasmtime.Engine(engine_config()), sys.stdin.buffer.read())
    except wasmtime.WasmtimeError as error:
        sys.stderr.write(str(error))
        return _REFUSED
    sys.stdout.buffer.write(module.serialize())
    return 0


if __name__ == "__main__":
    sys.exit(main())
