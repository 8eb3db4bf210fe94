"""WASI is there, and gives no right to anything."""

import os
import struct
import sys

import pytest
import wasmtime

from flo.wasm.outcome import Finished, TrapKind
from wasm.guests import answer_of, guest

BAD_DESCRIPTOR = 8
NOT_SUPPORTED = 58

OPEN = (
    "path_open",
    "(param i32 i32 i32 i32 i32 i64 i64 i32 i32)",
    "(i32.const 3) (i32.const 0) (i32.const 512) (i32.const 6) (i32.const 0) (i64.const 2) "
    "(i64.const 0) (i32.const 0) (i32.const 600)",
)


def calling(name, parameters, arguments, answer="(local.get $i)"):
    """A guest that calls one function of WASI and gives back the error, or another answer."""
    return guest(
        f"(local.set $i (call $it {arguments})) {answer_of(answer)}",
        imports=f'(import "wasi_snapshot_preview1" "{name}" (func $it {parameters} (result i32)))',
        more='(data (i32.const 512) "secret")',
    )


def number(outcome):
    assert isinstance(outcome, Finished), outcome
    return struct.unpack("<i", outcome.output)[0]


def test_no_file_can_be_opened(run):
    assert number(run(calling(*OPEN))) == BAD_DESCRIPTOR


def test_control_the_same_guest_opens_the_file_if_it_is_given_the_folder(tmp_path):
    (tmp_path / "secret").write_text("told")
    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    config = wasmtime.WasiConfig()
    config.preopen_dir(str(tmp_path), "/")
    store.set_wasi(config)
    exports = linker.instantiate(store, wasmtime.Module(engine, calling(*OPEN))).exports(store)

    assert exports["handle"](store, 0, 0) == 4
    assert exports["memory"].read(store, 0, 4) == bytes(4)


@pytest.mark.parametrize("descriptor", range(3, 20))
def test_no_folder_is_open(run, descriptor):
    arguments = f"(i32.const {descriptor}) (i32.const 600)"

    assert number(run(calling("fd_prestat_get", "(param i32 i32)", arguments))) == BAD_DESCRIPTOR


def test_no_socket_is_open(run):
    arguments = "(i32.const 3) (i32.const 0) (i32.const 600)"

    assert number(run(calling("sock_accept", "(param i32 i32 i32)", arguments))) == BAD_DESCRIPTOR


@pytest.mark.parametrize("name", ["environ_sizes_get", "args_sizes_get"])
def test_there_is_no_environment_and_no_argument(run, name):
    assert os.environ
    assert sys.argv
    count = calling(name, "(param i32 i32)", "(i32.const 600) (i32.const 604)", READ_BACK)

    assert number(run(count)) == 0


READ_BACK = "(i32.or (local.get $i) (i32.or (i32.load (i32.const 600)) (i32.load (i32.const 604))))"


def test_what_is_printed_goes_nowhere(run, capfd):
    iovec = "(i32.store (i32.const 700) (i32.const 512)) (i32.store (i32.const 704) (i32.const 6))"
    for stream in (1, 2):
        wasm = guest(
            f"{iovec} {answer_of(f'(call $write (i32.const {stream}) {REST})')}",
            imports='(import "wasi_snapshot_preview1" "fd_write" '
            "(func $write (param i32 i32 i32 i32) (result i32)))",
            more='(data (i32.const 512) "secret")',
        )
        assert number(run(wasm)) == 0

    assert capfd.readouterr() == ("", "")


REST = "(i32.const 700) (i32.const 1) (i32.const 600)"


def test_there_is_nothing_to_read(run):
    iovec = "(i32.store (i32.const 700) (i32.const 800)) (i32.store (i32.const 704) (i32.const 6))"
    length = answer_of("(i32.load (i32.const 600))")
    wasm = guest(
        f"{iovec} (drop (call $read (i32.const 0) {REST})) {length}",
        imports='(import "wasi_snapshot_preview1" "fd_read" '
        "(func $read (param i32 i32 i32 i32) (result i32)))",
    )

    assert number(run(wasm)) == 0


def test_clocks_and_rng_are_there(run):
    clock = calling(
        "clock_time_get",
        "(param i32 i64 i32)",
        "(i32.const 0) (i64.const 1) (i32.const 600)",
        "(i32.or (local.get $i) (i64.eqz (i64.load (i32.const 600))))",
    )
    rng = calling(
        "random_get",
        "(param i32 i32)",
        "(i32.const 600) (i32.const 64)",
        "(i32.or (local.get $i) (i64.eqz (i64.load (i32.const 640))))",
    )

    assert number(run(clock)) == 0
    assert number(run(rng)) == 0


def test_a_guest_cannot_sleep(run):
    """wasmtime's own poll_oneoff would sleep past every deadline."""
    hour = (
        "(i32.store8 (i32.const 808) (i32.const 0)) (i32.store (i32.const 816) (i32.const 1)) "
        "(i64.store (i32.const 824) (i64.const 3600000000000)) "
    )
    wasm = guest(
        hour
        + answer_of("(call $poll (i32.const 800) (i32.const 900) (i32.const 1) (i32.const 600))"),
        imports='(import "wasi_snapshot_preview1" "poll_oneoff" '
        "(func $poll (param i32 i32 i32 i32) (result i32)))",
    )

    assert number(run(wasm)) == NOT_SUPPORTED


@pytest.mark.parametrize("code", [0, 1, 125])
def test_a_guest_that_exits_has_failed(run, code):
    wasm = guest(
        f"(call $exit (i32.const {code})) (i64.const 0)",
        imports='(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))',
    )
    outcome = run(wasm)

    assert (outcome.kind, outcome.retry) == (TrapKind.EXITED, False)
    assert outcome.message == f"the guest exited with {code} instead of returning"


def test_a_reactor_is_initialized_before_its_first_call(run):
    wasm = guest(
        answer_of("(global.get $ready)"),
        more="""(global $ready (mut i32) (i32.const 0))
          (func (export "_initialize") (global.set $ready (i32.const 5)))
          (func (export "init") (result i32)
            (i32.ne (global.get $ready) (i32.const 5)))""",
    )

    assert number(run(wasm)) == 5
