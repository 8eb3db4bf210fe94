"""Guests that mean harm, and how each of them ends."""

from typing import Any, NamedTuple

from flo.wasm.outcome import TrapKind
from wasm.guests import FOREVER, guest

TIMEOUT_MS = 150


class Attack(NamedTuple):
    wasm: bytes
    kind: TrapKind
    memory_pages_max: int = 256
    fuel_max: int | None = None

    def bounds(self) -> dict[str, Any]:
        return {
            "memory_pages_max": self.memory_pages_max,
            "timeout_ms": TIMEOUT_MS if self.kind is TrapKind.TIMED_OUT else 60_000,
            "fuel_max": self.fuel_max,
        }


WASI_EXIT = '(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))'
WASI_RNG = (
    '(import "wasi_snapshot_preview1" "random_get" (func $dice (param i32 i32) (result i32)))'
)


def looping(body: str) -> str:
    return f"(loop $again {body} (br $again)) (i64.const 0)"


def host_call(call: str) -> bytes:
    """Calls the host with hostile numbers, and goes on as if nothing had happened."""
    return guest(f"(drop (call {call})) (i64.const 0)")


ATTACKS = {
    # time
    "spins": Attack(guest(FOREVER), TrapKind.TIMED_OUT),
    "spins when it starts": Attack(
        guest(more="(func $spin (loop $again (br $again))) (start $spin)"), TrapKind.TIMED_OUT
    ),
    "spins in init": Attack(
        guest(more='(func (export "init") (result i32) (loop $again (br $again)) (i32.const 0))'),
        TrapKind.TIMED_OUT,
    ),
    "spins in alloc": Attack(guest(alloc="(loop $a (br $a)) (i32.const 0)"), TrapKind.TIMED_OUT),
    "calls itself at the tail": Attack(
        guest("(return_call $handle (local.get $ptr) (local.get $len))"), TrapKind.TIMED_OUT
    ),
    "fills its memory again and again": Attack(
        guest(
            looping("(memory.fill (i32.const 0) (i32.const 1) (i32.const 16777216))"), memory="256"
        ),
        TrapKind.OUT_OF_FUEL,  # which is counted by the byte here
        fuel_max=10**9,
    ),
    "throws dice by the megabyte": Attack(
        guest(
            looping("(drop (call $dice (i32.const 0) (i32.const 65536)))"),
            imports=WASI_RNG,
        ),
        TrapKind.TIMED_OUT,
    ),
    # stack
    "recurses": Attack(
        guest("(call $handle (i32.const 0) (i32.const 0))"), TrapKind.STACK_OVERFLOW
    ),
    "recurses in alloc": Attack(
        guest(alloc="(call $deep)", more="(func $deep (result i32) (call $deep))"),
        TrapKind.STACK_OVERFLOW,
    ),
    "recurses through a table": Attack(
        guest(
            "(call_indirect (type $t) (i32.const 0) (i32.const 0) (i32.const 0))",
            more="""(type $t (func (param i32 i32) (result i64)))
              (table 1 funcref) (elem (i32.const 0) $handle)""",
        ),
        TrapKind.STACK_OVERFLOW,
    ),
    "calls the host from deep down": Attack(
        guest(
            """(if (i32.eqz (i32.and (local.get $len) (i32.const 63)))
                 (then (call $log (i32.const 0) (i32.const 0) (i32.const 1))))
               (call $handle (i32.const 0) (i32.add (local.get $len) (i32.const 1)))"""
        ),
        TrapKind.STACK_OVERFLOW,
    ),
    "recurses with large frames": Attack(
        guest(
            "(call $wide) (i64.const 0)",
            more="(func $wide (param) "
            + "(local i64)" * 4_000
            + " (call $wide) "
            + "".join(f"(local.set {n} (local.get {n + 1}))" for n in range(3_999))
            + ")",
        ),
        TrapKind.STACK_OVERFLOW,
    ),
    # memory
    "asks for all the memory there is": Attack(
        guest(
            """(if (i32.eq (memory.grow (i32.const 65000)) (i32.const -1)) (then unreachable))
               (i64.const 0)"""
        ),
        TrapKind.UNREACHABLE,
    ),
    "grows until it is refused, then goes on": Attack(
        guest(
            """(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
               (i32.store (i32.mul (memory.size) (i32.const 65536)) (i32.const 1)) (i64.const 0)"""
        ),
        TrapKind.OUT_OF_BOUNDS,
    ),
    "grows for ever": Attack(
        guest(looping("(drop (memory.grow (i32.const 1)))")), TrapKind.TIMED_OUT
    ),
    "begins with too large a table": Attack(
        guest(more="(table 10000000 funcref)"), TrapKind.LIMIT_EXCEEDED
    ),
    "has too many tables": Attack(guest(more="(table 1 funcref)" * 17), TrapKind.LIMIT_EXCEEDED),
    "grows a table for ever": Attack(
        guest(
            looping("(drop (table.grow $t (ref.null func) (i32.const 1000)))"),
            more="(table $t 1 funcref)",
        ),
        TrapKind.TIMED_OUT,
    ),
    "puts data where there is no memory": Attack(
        guest(more='(data (i32.const 65530) "too long for it")'), TrapKind.OUT_OF_BOUNDS
    ),
    "begins with more memory than it may have": Attack(
        guest(memory="257"), TrapKind.LIMIT_EXCEEDED
    ),
    # pointers and lengths
    "returns an output behind its memory": Attack(
        guest("(i64.const 0x0001000000000001)"), TrapKind.OUT_OF_BOUNDS
    ),
    "returns an output of 4 GiB": Attack(
        guest("(i64.const 0x00000000ffffffff)"), TrapKind.OUT_OF_BOUNDS
    ),
    "returns the last pointer and the last length": Attack(
        guest("(i64.const 0x7fffffffffffffff)"), TrapKind.OUT_OF_BOUNDS
    ),
    "returns an output of 17 MiB": Attack(
        guest("(i64.const 17825792)", memory="300"), TrapKind.OUTPUT_TOO_LARGE, memory_pages_max=512
    ),
    "wants its input at the end of its memory": Attack(
        guest(alloc="(i32.const 65535)"), TrapKind.OUT_OF_BOUNDS
    ),
    "wants its input far outside": Attack(guest(alloc="(i32.const -8)"), TrapKind.OUT_OF_BOUNDS),
    "has no room for its input": Attack(guest(alloc="(i32.const 0)"), TrapKind.ALLOCATION_FAILED),
    "reads out of its memory": Attack(
        guest("(i64.load (i32.const 65530))"), TrapKind.OUT_OF_BOUNDS
    ),
    "logs what is not there": Attack(
        guest("(call $log (i32.const 1) (i32.const 65000) (i32.const -1)) (i64.const 0)"),
        TrapKind.OUT_OF_BOUNDS,
    ),
    "has a key of 4 GiB": Attack(
        host_call("$kv_get (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 0)"),
        TrapKind.OUT_OF_BOUNDS,
    ),
    "has a key outside": Attack(
        host_call("$kv_delete (i32.const -1) (i32.const 1)"), TrapKind.OUT_OF_BOUNDS
    ),
    "has a buffer that ends outside": Attack(
        host_call("$kv_get (i32.const 0) (i32.const 1) (i32.const 65530) (i32.const 7)"),
        TrapKind.OUT_OF_BOUNDS,
    ),
    "has a value that ends outside": Attack(
        host_call("$kv_set (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 65536)"),
        TrapKind.OUT_OF_BOUNDS,
    ),
    "hands WASI a pointer outside": Attack(
        guest(
            "(drop (call $dice (i32.const 65530) (i32.const 100))) (i64.const 0)", imports=WASI_RNG
        ),
        TrapKind.OUT_OF_BOUNDS,
    ),
    "spins after the host has had enough": Attack(
        guest(f"(drop (call $kv_delete (i32.const -1) (i32.const 1))) {FOREVER}"),
        TrapKind.OUT_OF_BOUNDS,
    ),
    # the host's patience
    "logs for ever": Attack(
        guest(looping("(call $log (i32.const 1) (i32.const 0) (i32.const 60000))")),
        TrapKind.LIMIT_EXCEEDED,
    ),
    "reads a key for ever": Attack(
        guest(
            looping("(drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))")
        ),
        TrapKind.LIMIT_EXCEEDED,
    ),
    "writes ever more keys": Attack(
        guest(
            looping(
                """(i32.store (i32.const 0) (i32.or (i32.const 0x20202020) (local.get $i)))
                   (local.set $i (i32.add (local.get $i) (i32.const 0x01)))
                   (local.set $i (i32.and (local.get $i) (i32.const 0x1f1f)))
                   (if (i32.eq (i32.and (local.get $i) (i32.const 0x1f)) (i32.const 0x1f))
                     (then (local.set $i
                       (i32.add (i32.and (local.get $i) (i32.const 0x1f00)) (i32.const 0x100)))))
                   (drop (call $kv_set
                     (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 4)))"""
            )
        ),
        TrapKind.LIMIT_EXCEEDED,
    ),
    # plain mistakes
    "gives up": Attack(guest("unreachable"), TrapKind.UNREACHABLE),
    "gives up when it starts": Attack(
        guest(more="(func $stop unreachable) (start $stop)"), TrapKind.UNREACHABLE
    ),
    "divides by zero": Attack(guest("(i64.div_u (i64.const 1) (i64.const 0))"), TrapKind.TRAP),
    "calls what is not there": Attack(
        guest("(call_indirect (result i64) (i32.const 0))", more="(table 1 funcref)"),
        TrapKind.TRAP,
    ),
    "exits": Attack(
        guest("(call $exit (i32.const 0)) (i64.const 0)", imports=WASI_EXIT), TrapKind.EXITED
    ),
    "says that its init failed": Attack(
        guest(more='(func (export "init") (result i32) (i32.const 9))'), TrapKind.INIT_FAILED
    ),
    "returns the least of all numbers": Attack(
        guest("(i64.const 0x8000000000000000)"), TrapKind.GUEST_ERROR
    ),
}
