"""Modules: checked when they are registered, compiled once, and kept by the digest of their bytes.

    bytes ──▸ a module, not too large? ──▸ compile ──▸ exports, memory, imports ──▸ Module
                                              ▲
                              a cache of the modules used last

All problems are reported together, each with what was expected and what came.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

import wasmtime

from flo.model.errors import Invalid, TooLarge
from flo.model.ids import check_range, check_text
from flo.wasm.abi import (
    ENTRYPOINT_DEFAULT,
    ENTRYPOINT_LENGTH_MAX,
    ENTRYPOINT_SIGNATURE,
    MEMORY_EXPORT,
    MEMORY_PAGES_DEFAULT,
    MEMORY_PAGES_MAX,
    OPTIONAL_SIGNATURES,
    REQUIRED_SIGNATURES,
)
from flo.wasm.compiler import compile_module
from flo.wasm.engine import WasmEngine
from flo.wasm.host import SIGNATURES
from flo.wasm.linking import HOST_MODULE, WASI_MODULE, Links, signature_of

MAGIC = b"\0asm\x01\0\0\0"
MODULE_LENGTH_MAX = 4 * 1024 * 1024
COUNTS_MAX = {2: ("imports", 1_000), 3: ("functions", 20_000), 7: ("exports", 1_000)}
"""By section. Compiling takes time by the function as well as by the byte."""
MODULES_CACHED_MAX = 64
LENGTH_CACHED_MAX = 32 * 1024 * 1024
SECTIONS_MAX = 1_000
PROBLEMS_MAX = 20
PROBLEM_LENGTH_MAX = 500


class Module(NamedTuple):
    """A module, compiled, with its imports bound."""

    digest: str
    length: int
    compiled: wasmtime.Module
    ready: wasmtime.InstancePre
    exports: frozenset[str]
    uses_wasi: bool


class Modules:
    """Compiles modules, one at a time, and keeps those that were used last. For any thread."""

    def __init__(
        self,
        engine: WasmEngine,
        *,
        cached_max: int = MODULES_CACHED_MAX,
        length_cached_max: int = LENGTH_CACHED_MAX,
    ) -> None:
        self.links = Links(engine)
        self._engine = engine
        self._cached_max = cached_max
        self._length_cached_max = length_cached_max
        self._cached: OrderedDict[str, Module] = OrderedDict()
        self._compiling = Lock()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._cached)

    def cached(self, digest: str) -> Module | None:
        with self._lock:
            if digest in self._cached:
                self._cached.move_to_end(digest)
            return self._cached.get(digest)

    def compile(self, wasm: bytes) -> Module:
        """The module, from the cache if it is there. Takes a while: not on an event loop."""
        module = self.cached(digest_of(wasm))
        return module or self._checked(wasm, self._import_problems)

    def check(
        self,
        wasm: bytes,
        entrypoint: str = ENTRYPOINT_DEFAULT,
        memory_pages_max: int = MEMORY_PAGES_DEFAULT,
    ) -> Module:
        """The module, checked to be an action. Takes a while, as compile does."""
        check_range(memory_pages_max, "a memory limit in pages of 64 KB", 1, MEMORY_PAGES_MAX)
        check_text(entrypoint, "an entrypoint", ENTRYPOINT_LENGTH_MAX)

        def problems(compiled: wasmtime.Module) -> Iterator[str]:
            exports = {export.name: export.type for export in compiled.exports}
            yield from _function_problems(exports, entrypoint)
            yield from _memory_problems(exports, memory_pages_max)
            yield from self._import_problems(compiled)

        return self._checked(wasm, problems)

    def _checked(self, wasm: bytes, problems: Callable[[wasmtime.Module], Iterator[str]]) -> Module:
        digest = digest_of(wasm)
        with self._compiling:
            module = self.cached(digest)
            compiled = module.compiled if module else self._compile(wasm)
            found = list(problems(compiled))
            if found:
                raise _refusal(found)
            if module is None:
                module = self._bind(compiled, digest, len(wasm))
                self._keep(module)
        return module

    def _compile(self, wasm: bytes) -> wasmtime.Module:
        _check_bytes(wasm)
        try:
            return compile_module(self._engine.wasmtime, wasm)
        except TooLarge:
            raise
        except Invalid as error:
            reason = " ".join(error.message.split())
            raise _refusal([f"it does not compile: {_shown(reason)}"]) from None

    def _bind(self, compiled: wasmtime.Module, digest: str, length: int) -> Module:
        return Module(
            digest=digest,
            length=length,
            compiled=compiled,
            ready=self.links.bind(compiled),
            exports=frozenset(export.name for export in compiled.exports),
            uses_wasi=any(each.module == WASI_MODULE for each in compiled.imports),
        )

    def _import_problems(self, compiled: wasmtime.Module) -> Iterator[str]:
        for each in compiled.imports:
            name = f"{_shown(each.module)} {_shown(each.name or '')}"
            expected = self.links.signature(each.module, each.name or "")
            got = _described(each.type)
            if expected is None:
                yield f"expected imports that Flo has, got {name}, {got}{_nearest(each)}"
            elif got != f"a function {expected}":
                yield f"expected the import {name} to be a function {expected}, got {got}"

    def _keep(self, module: Module) -> None:
        with self._lock:
            self._cached[module.digest] = module
            while len(self._cached) > self._cached_max or (
                sum(each.length for each in self._cached.values()) > self._length_cached_max
            ):
                self._cached.popitem(last=False)


def digest_of(wasm: bytes) -> str:
    """The address of a module: the SHA-256 of its bytes."""
    return sha256(wasm).hexdigest()


def _check_bytes(wasm: bytes) -> None:
    """Refuse what is no module, or one that would take too long to compile."""
    if len(wasm) > MODULE_LENGTH_MAX:
        raise TooLarge(
            f"expected a module of at most {MODULE_LENGTH_MAX} bytes, got {len(wasm)}",
            code="wasm_too_large",
        )
    if not wasm.startswith(MAGIC):
        got = "an archive (ar)" if wasm.startswith(b"!<arch>") else repr(wasm[: len(MAGIC)])
        raise _refusal([f"expected a module, which begins with {MAGIC!r}, got {got}"])
    for number, (section, count) in enumerate(_counts(wasm), 1):
        _check_count("sections", number, SECTIONS_MAX)
        if section in COUNTS_MAX:
            what, most = COUNTS_MAX[section]
            _check_count(what, count, most)


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise TooLarge(
            f"expected a module with at most {most} {what}, got {count}", code="wasm_too_large"
        )


def _counts(wasm: bytes) -> Iterator[tuple[int, int]]:
    """Each section, and how many things it says it has; the compiler finds out if that is so."""
    at = len(MAGIC)
    while at < len(wasm):
        section = wasm[at]
        length, at = _number(wasm, at + 1)
        yield section, _number(wasm, at)[0]
        at += length


def _number(wasm: bytes, at: int) -> tuple[int, int]:
    """The LEB128 number at a place, and the place behind it."""
    value = 0
    for shift in range(0, 35, 7):
        byte = wasm[at] if at < len(wasm) else 0
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            break
    return value, at


def _function_problems(exports: dict[str, Any], entrypoint: str) -> Iterator[str]:
    required = {entrypoint: ENTRYPOINT_SIGNATURE, **REQUIRED_SIGNATURES}
    if entrypoint in REQUIRED_SIGNATURES or entrypoint in OPTIONAL_SIGNATURES:
        yield f"expected an entrypoint beside the functions of the ABI, got {entrypoint!r}"
    for name, signature in {**required, **OPTIONAL_SIGNATURES}.items():
        if name in exports:
            got = _described(exports[name])
            if got != f"a function {signature}":
                yield f"expected the export {_shown(name)} to be a function {signature}, got {got}"
        elif name in required:
            yield f"expected an export {_shown(name)}, a function {signature}, got none"


def _memory_problems(exports: dict[str, Any], memory_pages_max: int) -> Iterator[str]:
    memory = exports.get(MEMORY_EXPORT)
    if not isinstance(memory, wasmtime.MemoryType):
        got = "none" if memory is None else _described(memory)
        yield f"expected an export {MEMORY_EXPORT!r}, a memory, got {got}"
    elif memory.limits.min > memory_pages_max:
        yield (
            f"expected a memory that begins with at most {memory_pages_max} pages of 64 KB, "
            f"got {memory.limits.min} (a smaller stack may help: -Wl,-z,stack-size=65536)"
        )


def _described(kind: Any) -> str:
    match kind:
        case wasmtime.FuncType():
            return f"a function {signature_of(kind)}"
        case wasmtime.MemoryType():
            return "a memory"
        case wasmtime.TableType():
            return "a table"
        case wasmtime.GlobalType():
            return "a global"
        case _:
            return "something else"


def _nearest(unknown: wasmtime.ImportType) -> str:
    """A hint at what may have been meant."""
    near = get_close_matches(unknown.name or "", SIGNATURES, n=1)
    if near:
        return f" (is it {HOST_MODULE!r} {near[0]!r}?)"
    return ""


def _refusal(problems: list[str]) -> Invalid:
    shown = [problem[:PROBLEM_LENGTH_MAX] for problem in problems[:PROBLEMS_MAX]]
    listed = "; ".join(shown)
    more = f"; and {len(problems) - PROBLEMS_MAX} more" if len(problems) > PROBLEMS_MAX else ""
    return Invalid(
        f"the module cannot be an action: {listed}{more}",
        code="wasm_invalid",
        details={"problems": shown},
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:197] + "...")
