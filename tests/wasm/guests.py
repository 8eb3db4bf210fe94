"""Guests written as text, and the world outside that they read."""

from collections.abc import Callable

from wasmtime import wat2wasm

from flo.model.errors import Unavailable
from flo.wasm.abi import Fault
from flo.wasm.host import Stored

IMPORTS = """
  (import "flo" "log" (func $log (param i32 i32 i32)))
  (import "flo" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (import "flo" "kv_set" (func $kv_set (param i32 i32 i32 i32) (result i32)))
  (import "flo" "kv_delete" (func $kv_delete (param i32 i32) (result i32)))
"""


def guest(
    handle: str = "(i64.const 0)",
    *,
    alloc: str = "(i32.const 1024)",
    memory: str = "1",
    imports: str = IMPORTS,
    more: str = "",
) -> bytes:
    """A guest that does this in `handle`, with the input at $ptr and $len."""
    return bytes(
        wat2wasm(f"""(module {imports}
          (memory (export "memory") {memory})
          (func (export "alloc") (param $size i32) (result i32) {alloc})
          (func (export "dealloc") (param i32 i32))
          (func $handle (export "handle") (param $ptr i32) (param $len i32) (result i64)
            (local $i i32) {handle})
          {more})""")
    )


PACKED_INPUT = """(i64.or (i64.shl (i64.extend_i32_u (local.get $ptr)) (i64.const 32))
                          (i64.extend_i32_u (local.get $len)))"""
ECHO = guest(PACKED_INPUT)
FOREVER = "(loop $again (br $again)) (i64.const 0)"


def answer_of(number: str) -> str:
    """Give back an i32 as four bytes."""
    return f"(i32.store (i32.const 0) {number}) (i64.const 4)"


class Keys(dict[str, Stored]):
    """The keys outside, and how often each was read."""

    def __init__(self, **values: bytes) -> None:
        super().__init__({key: Stored(value=value, version=7) for key, value in values.items()})
        self.asked: list[str] = []

    def read(self, key: str) -> Stored | None:
        self.asked.append(key)
        return self.get(key)


class OutOfReach:
    def read(self, key: str) -> Stored | None:
        raise Unavailable("the keys are out of reach")


def fault_of(function: Callable[..., object], *arguments: object) -> Fault | None:
    """How a function fails the guest, if it does."""
    try:
        function(*arguments)
    except Fault as fault:
        return fault
    return None
