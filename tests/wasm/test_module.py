import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import wat2wasm

from flo.model.errors import Invalid, TooLarge
from flo.wasm.engine import WasmEngine
from flo.wasm.module import (
    COUNTS_MAX,
    MAGIC,
    MODULE_LENGTH_MAX,
    PROBLEM_LENGTH_MAX,
    PROBLEMS_MAX,
    SECTIONS_MAX,
    Modules,
    digest_of,
)
from wasm.guests import ECHO, guest


def refused(modules, wasm, *arguments):
    """The problems that are reported of a module."""
    with pytest.raises(Invalid) as refusal:
        modules.check(wasm, *arguments)
    assert refusal.value.code == "wasm_invalid"
    for problem in refusal.value.details["problems"]:
        assert problem in refusal.value.message
    return refusal.value.details["problems"]


def test_a_module_is_addressed_by_its_content(modules):
    module = modules.check(ECHO)

    assert module.digest == digest_of(ECHO) == hashlib.sha256(ECHO).hexdigest()
    assert module.exports == {"memory", "alloc", "dealloc", "handle"}
    assert not module.uses_wasi


def test_every_problem_is_told_at_once(modules):
    wasm = wat2wasm("""(module
      (import "env" "abort" (func (param i32)))
      (import "flo" "kv_gett" (func))
      (import "flo" "kv_set" (func (param i32) (result i64)))
      (import "wasi_snapshot_preview1" "fd_write" (func (param f32)))
      (import "wasi_snapshot_preview1" "fork" (func))
      (import "flo" "memory" (memory 1))
      (import "flo" "log" (global i32))
      (func (export "handle") (param i32) (result i32) (i32.const 0))
      (func (export "init"))
      (func (export "describe") (result i32 i32) (i32.const 0) (i32.const 0))
      (table (export "alloc") 1 funcref)
      (global (export "memory") i32 (i32.const 0)))""")

    assert refused(modules, bytes(wasm)) == [
        "expected the export 'handle' to be a function (i32, i32) -> i64, "
        "got a function (i32) -> i32",
        "expected the export 'alloc' to be a function (i32) -> i32, got a table",
        "expected an export 'dealloc', a function (i32, i32) -> (), got none",
        "expected the export 'init' to be a function () -> i32, got a function () -> ()",
        "expected the export 'describe' to be a function () -> i64, "
        "got a function () -> (i32, i32)",
        "expected an export 'memory', a memory, got a global",
        "expected imports that Flo has, got 'env' 'abort', a function (i32) -> ()",
        "expected imports that Flo has, got 'flo' 'kv_gett', a function () -> () "
        "(is it 'flo' 'kv_get'?)",
        "expected the import 'flo' 'kv_set' to be a function (i32, i32, i32, i32) -> i32, "
        "got a function (i32) -> i64",
        "expected the import 'wasi_snapshot_preview1' 'fd_write' to be a function "
        "(i32, i32, i32, i32) -> i32, got a function (f32) -> ()",
        "expected imports that Flo has, got 'wasi_snapshot_preview1' 'fork', a function () -> ()",
        "expected imports that Flo has, got 'flo' 'memory', a memory",
        "expected the import 'flo' 'log' to be a function (i32, i32, i32) -> (), got a global",
    ]


def test_problems_are_told_up_to_a_bound(modules):
    imports = "".join(f'(import "env" "f{number}" (func))' for number in range(100))

    assert len(refused(modules, bytes(wat2wasm(f"(module {imports})")))) == PROBLEMS_MAX


def test_an_entrypoint_may_have_another_name(modules):
    wasm = guest(more='(export "decide" (func $handle))')

    assert modules.check(wasm, "decide").digest == digest_of(wasm)
    assert refused(modules, wasm, "judge") == [
        "expected an export 'judge', a function (i32, i32) -> i64, got none"
    ]


@pytest.mark.parametrize("taken", ["alloc", "dealloc", "init", "describe", "_initialize"])
def test_an_entrypoint_is_none_of_the_other_functions(modules, taken):
    assert f"expected an entrypoint beside the functions of the ABI, got '{taken}'" in refused(
        modules, ECHO, taken
    )


def test_a_memory_begins_within_the_limit(modules):
    wasm = guest(memory="257")

    assert refused(modules, wasm) == [
        "expected a memory that begins with at most 256 pages of 64 KB, got 257 "
        "(a smaller stack may help: -Wl,-z,stack-size=65536)"
    ]
    assert modules.check(wasm, "handle", 257)


@pytest.mark.parametrize("pages", [0, -1, 16_385])
def test_a_memory_limit_has_limits(modules, pages):
    with pytest.raises(Invalid, match="a memory limit in pages of 64 KB from 1 to 16384"):
        modules.check(ECHO, "handle", pages)


@pytest.mark.parametrize(
    ("wasm", "got"),
    [
        (b"", "got b''"),
        (b"(module)", r"got b'\(module\)'"),
        (b"!<arch>\n", r"got an archive \(ar\)"),
        (b"\0asm\x0d\0\x01\0", r"got b'\\x00asm\\r\\x00\\x01\\x00'"),
        (MAGIC + b"\xff", "it does not compile"),
    ],
)
def test_what_is_no_module_is_told_apart(modules, wasm, got):
    with pytest.raises(Invalid, match=got):
        modules.check(wasm)


@pytest.mark.parametrize(
    "wat",
    [
        "(module (memory 1) (memory 1))",
        "(module (memory i64 1))",
        "(module (memory 1 1 shared))",
        "(module (type (struct)))",
        "(module (tag))",
    ],
)
def test_what_guests_do_not_need_is_switched_off(modules, wat):
    with pytest.raises(Invalid, match="it does not compile"):
        modules.check(bytes(wat2wasm(wat)))


def test_a_module_that_is_too_long_is_not_even_looked_at(modules):
    with pytest.raises(TooLarge, match=f"at most {MODULE_LENGTH_MAX} bytes, got") as refusal:
        modules.check(MAGIC + bytes(MODULE_LENGTH_MAX))

    assert refusal.value.code == "wasm_too_large"


@pytest.mark.parametrize("section", COUNTS_MAX)
def test_a_module_of_too_many_things_is_not_compiled(modules, section):
    what, most = COUNTS_MAX[section]
    count = most + 1
    number = bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])

    with pytest.raises(TooLarge, match=f"at most {most} {what}, got {count}"):
        modules.check(MAGIC + b"\x00\x02\x01x" + bytes([section, 3]) + number)


def test_a_module_of_too_many_sections_is_not_compiled(modules):
    with pytest.raises(TooLarge, match=f"at most {SECTIONS_MAX} sections"):
        modules.check(MAGIC + b"\x00\x01\x00" * (SECTIONS_MAX + 1))


def test_a_problem_is_told_up_to_a_bound(modules):
    parameters = "i32 " * 900
    wasm = wat2wasm(f'(module (import "env" "f" (func (param {parameters}))))')

    assert max(map(len, refused(modules, bytes(wasm)))) == PROBLEM_LENGTH_MAX


def test_a_module_is_compiled_once(modules):
    module = modules.check(ECHO)

    assert modules.check(ECHO) is module
    assert modules.compile(ECHO) is module
    assert modules.cached(digest_of(ECHO)) is module
    assert modules.cached(digest_of(b"")) is None


def test_a_module_that_was_refused_is_not_kept(modules):
    refused(modules, guest(memory="257"))

    assert len(modules) == 0


def test_the_modules_used_last_are_kept_up_to_so_many(engine):
    modules = Modules(engine, cached_max=2)
    first, second, third = (guest(f"(i64.const -{number})") for number in (1, 2, 3))
    modules.compile(first)
    modules.compile(second)
    modules.cached(digest_of(first))
    modules.compile(third)

    assert len(modules) == 2
    assert modules.cached(digest_of(first))
    assert modules.cached(digest_of(second)) is None


def test_modules_are_kept_up_to_so_many_bytes(engine):
    first, second = (guest(f"(i64.const -{number})") for number in (1, 2))
    modules = Modules(engine, length_cached_max=len(first) + len(second) - 1)
    modules.compile(first)
    modules.compile(second)

    assert modules.cached(digest_of(first)) is None
    assert modules.cached(digest_of(second))


MODULES = Modules(WasmEngine())


@settings(max_examples=500)
@given(st.data())
def test_bytes_that_were_tampered_with_are_compiled_or_refused(data):
    wasm = bytearray(ECHO)
    for _ in range(data.draw(st.integers(1, 8))):
        wasm[data.draw(st.integers(0, len(wasm) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(wasm[: data.draw(st.integers(0, len(wasm)) | st.just(len(wasm)))])
    try:
        said = MODULES.check(cut).digest
    except Invalid as refusal:
        said = refusal.code

    assert said in (digest_of(cut), "wasm_invalid", "wasm_too_large")
