"""The guests in examples/wasm, built with the commands of the guide, checked and run."""

import importlib.util
import json
from pathlib import Path

import pytest
from wasmtime import wat2wasm

from flo.model.errors import Invalid
from flo.wasm.host import Stored
from flo.wasm.outcome import RETRIED, GuestPut, LogLine, TrapKind
from wasm.guests import Keys

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "wasm.md").read_text(encoding="utf-8")


def load_builds():
    """The script behind `make wasm`."""
    spec = importlib.util.spec_from_file_location("builds", ROOT / "examples" / "wasm" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


builds = load_builds()


@pytest.mark.parametrize("source", builds.SOURCES)
def test_what_is_kept_was_built_of_this_source_by_this_command(source):
    kept = json.loads(builds.SUMS.read_text(encoding="utf-8"))

    assert kept[source] == builds.sums(source), "build it anew: make wasm"


@pytest.fixture(scope="module")
def rules_engine():
    return (builds.BUILT / "rules_engine.wasm").read_bytes()


@pytest.fixture(scope="module")
def word_count():
    return (builds.BUILT / "word_count.wasm").read_bytes()


@pytest.fixture(scope="module")
def counter():
    return builds.build("counter.wat")


@pytest.fixture
def call(modules, run):
    """Check a guest as a registration does, then run it."""

    def call(wasm, input, reader=None):
        modules.check(wasm)
        return run(wasm, input, reader)

    return call


@pytest.mark.parametrize(
    ("customer", "eligible", "passed"),
    [
        ('{"age": 25, "country": "US"}', True, 2),
        ('{"age": 17, "country": "US"}', False, 1),
        ('{"age": 25, "country": "Atlantis", "name": "Anna"}', False, 1),
        ("{}", False, 0),
    ],
)
def test_the_rules_engine_judges(call, rules_engine, customer, eligible, passed):
    outcome = call(rules_engine, customer.encode())

    said = {"eligible": eligible, "rules_evaluated": 2, "rules_passed": passed}
    assert outcome.output == json.dumps(said, separators=(",", ":")).encode()


@pytest.mark.parametrize("input", [b"", b"[", b'{"age": "old"}', b"\xff"])
def test_the_rules_engine_refuses_what_is_no_customer(call, rules_engine, input):
    outcome = call(rules_engine, input)

    assert (outcome.kind, outcome.retry) == (TrapKind.INVALID_INPUT, False)


def test_the_rules_engine_has_only_so_much_room(call, rules_engine):
    assert call(rules_engine, b" " * 70_000).kind is TrapKind.ALLOCATION_FAILED


def test_a_library_is_an_archive_and_no_module(modules):
    with pytest.raises(Invalid, match=r"got an archive \(ar\)"):
        modules.check(
            b"!<arch>\n" + b"/               0           0     0     0       4         `\n"
        )


def test_the_counter_counts(call, counter):
    keys = Keys()
    for count in range(1, 102):
        outcome = call(counter, b"home", keys)
        assert outcome.output == b"%d" % count
        assert outcome.effects == (GuestPut(key="visits/home", value=outcome.output),)
        assert outcome.reads == {"visits/home": count - 1}
        assert outcome.logs == (LogLine(level=1, message="one more visit"),)
        keys["visits/home"] = Stored(value=outcome.output, version=count)

    assert call(counter, b"about", keys).output == b"1"
    assert call(counter, b"", keys).kind is TrapKind.INVALID_INPUT
    assert call(counter, b"x" * 1_001, keys).kind is TrapKind.INVALID_INPUT


def test_words_are_counted_and_the_longest_text_is_remembered(call, word_count):
    keys = Keys()
    first = call(word_count, b" the  quick\tbrown fox\n", keys)
    keys["longest-text"] = Stored(value=first.effects[0].value, version=1)
    second = call(word_count, b"short", keys)

    assert json.loads(first.output) == {"words": 4, "longest": 22}
    assert json.loads(second.output) == {"words": 1, "longest": 22}
    assert first.logs == (LogLine(level=1, message="the longest text so far"),)
    assert (second.effects, second.logs) == ((), ())


def test_the_guide_shows_what_is_said_of_a_module_that_cannot_be_one(modules):
    wasm = wat2wasm("""(module (import "env" "kv_gett" (func)) (memory (export "memory") 1)
      (func (export "alloc") (param i32) (result i32) (i32.const 8))
      (func (export "handle") (param i32 i32) (result i64) (i64.const 0)))""")
    with pytest.raises(Invalid) as refusal:
        modules.check(bytes(wasm))

    assert refusal.value.message in PAGE.replace("\n", " ")


def test_a_value_that_is_none_of_its_own_fails_the_word_count(call, word_count):
    assert (
        call(word_count, b"", Keys(**{"longest-text": b"much"[:3]})).kind
        is TrapKind.EXECUTION_ERROR
    )


@pytest.mark.parametrize("kind", TrapKind)
def test_the_guide_knows_every_kind_of_failure_and_whether_it_is_retried(kind):
    (row,) = (line for line in PAGE.splitlines() if f"| `{kind}` |" in line)

    assert row.endswith(f"| {'yes' if kind in RETRIED else 'no'} |")
