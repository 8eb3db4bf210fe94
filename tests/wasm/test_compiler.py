import pytest
from wasmtime import Engine as WasmtimeEngine
from wasmtime import wat2wasm

from flo.model.errors import Invalid, TooLarge
from flo.wasm.compiler import HERE_LENGTH_MAX, compile_module
from flo.wasm.engine import engine_config
from wasm.guests import PACKED_INPUT, guest

PADDING = f'(data (i32.const 2048) "{"x" * HERE_LENGTH_MAX}")'
LOOPS = "(loop (br_if 0 (local.get $ptr)))"


@pytest.fixture
def wasmtime_engine():
    return WasmtimeEngine(engine_config())


def test_a_module_that_was_compiled_elsewhere_runs_here(run):
    wasm = guest(PACKED_INPUT, more=PADDING)

    assert len(wasm) > HERE_LENGTH_MAX
    assert run(wasm, b"hello").output == b"hello"


@pytest.mark.parametrize("padding", ["", PADDING], ids=["here", "elsewhere"])
def test_what_is_wrong_is_told_wherever_it_was_found(modules, padding):
    wasm = bytes(wat2wasm(f"(module (memory 1) {padding} (func (result i32)))"))

    with pytest.raises(Invalid, match=r"it does not compile: .*type mismatch") as refusal:
        modules.check(wasm)
    assert refusal.value.code == "wasm_invalid"


def test_a_module_that_keeps_the_compiler_busy_is_refused(wasmtime_engine):
    """This one would take minutes."""
    bomb = guest(LOOPS * 40_000 + "(i64.const 0)")

    with pytest.raises(TooLarge, match="compiled within 1 seconds") as refusal:
        compile_module(wasmtime_engine, bomb, seconds_max=1)
    assert refusal.value.code == "wasm_too_large"


def test_control_fewer_of_the_same_loops_are_compiled(wasmtime_engine):
    wasm = guest(LOOPS * 700 + "(i64.const 0)")

    assert len(wasm) > HERE_LENGTH_MAX
    assert compile_module(wasmtime_engine, wasm).exports
