import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.wasm.abi import Fault, Span
from flo.wasm.host import (
    INVALID_KEY,
    KEY_LENGTH_MAX,
    LOG_LENGTH_MAX,
    LOGS_MAX,
    NOT_FOUND,
    READS_LENGTH_MAX,
    READS_MAX,
    VALUE_LENGTH_MAX,
    VALUE_TOO_LARGE,
    WRITES_LENGTH_MAX,
    WRITES_MAX,
    Host,
    Stored,
)
from flo.wasm.outcome import GuestDelete, GuestPut, LogLine, TrapKind
from wasm.guests import Keys, fault_of


class Page:
    """A memory in a bytearray, that says so if it is touched out of range."""

    def __init__(self, length=65_536):
        self.data = bytearray(length)
        self.end = 0

    def length(self):
        return len(self.data)

    def read(self, span):
        assert span.pointer + span.length <= len(self.data)
        return bytes(self.data[span.pointer : span.pointer + span.length])

    def write(self, pointer, data):
        assert pointer + len(data) <= len(self.data)
        self.data[pointer : pointer + len(data)] = data

    def holding(self, data):
        """Where these bytes are."""
        span = Span(self.end, len(data))
        self.write(self.end, data)
        self.end += len(data)
        return span


@pytest.fixture
def page():
    return Page(4 * 1024 * 1024)


def get(host, page, key, room=1_000):
    """What kv_get returns, and what it has put in the buffer."""
    buffer = page.holding(b"\xee" * room)
    length = host.kv_get(page, page.holding(key), buffer)
    return length, page.read(buffer)[: max(length, 0)]


def put(host, page, key, value):
    return host.kv_set(page, page.holding(key), page.holding(value))


def test_a_value_is_read_from_outside_and_its_version_is_kept(page):
    host = Host(Keys(colour=b"blue"))

    assert get(host, page, b"colour") == (4, b"blue")
    assert get(host, page, b"taste") == (NOT_FOUND, b"")
    assert host.reads == {"colour": 7, "taste": 0}
    assert host.effects == ()


def test_a_run_sees_one_value_of_a_key_however_often_it_looks(page):
    keys = Keys(colour=b"blue")
    host = Host(keys)
    get(host, page, b"colour")
    get(host, page, b"taste")
    keys["colour"] = Stored(value=b"red", version=8)
    keys["taste"] = Stored(value=b"sweet", version=9)

    assert get(host, page, b"colour") == (4, b"blue")
    assert get(host, page, b"taste") == (NOT_FOUND, b"")
    assert keys.asked == ["colour", "taste"]
    assert host.reads == {"colour": 7, "taste": 0}


def test_a_run_sees_its_own_writes_and_need_not_look_outside_for_them(page):
    keys = Keys(colour=b"blue")
    host = Host(keys)

    assert put(host, page, b"colour", b"red") == 0
    assert get(host, page, b"colour") == (3, b"red")
    assert host.kv_delete(page, page.holding(b"colour")) == 0
    assert get(host, page, b"colour") == (NOT_FOUND, b"")
    assert put(host, page, b"empty", b"") == 0
    assert get(host, page, b"empty") == (0, b"")
    assert keys.asked == []
    assert host.reads == {}


def test_the_last_change_to_each_key_is_its_effect(page):
    host = Host(Keys())
    put(host, page, b"a", b"1")
    put(host, page, b"b", b"2")
    host.kv_delete(page, page.holding(b"c"))
    put(host, page, b"a", b"3")
    host.kv_delete(page, page.holding(b"b"))

    assert host.effects == (
        GuestDelete(key="c"),
        GuestPut(key="a", value=b"3"),
        GuestDelete(key="b"),
    )


def test_a_buffer_that_is_too_small_is_left_alone_and_the_length_is_told(page):
    host = Host(Keys(colour=b"blue"))
    small = page.holding(b"\xee" * 3)
    behind = page.holding(b"\xee" * 10)

    assert host.kv_get(page, page.holding(b"colour"), small) == 4
    assert page.read(small) + page.read(behind) == b"\xee" * 13
    assert host.kv_get(page, page.holding(b"colour"), Span(0, 0)) == 4


@pytest.mark.parametrize("key", [b"", b"\xff", b"k" * (KEY_LENGTH_MAX + 1)])
def test_what_cannot_be_a_key_is_told_to_the_guest(page, key):
    host = Host(Keys())

    assert get(host, page, key)[0] == INVALID_KEY
    assert put(host, page, key, b"") == INVALID_KEY
    assert host.kv_delete(page, page.holding(key)) == INVALID_KEY
    assert (host.effects, host.reads) == ((), {})


def test_a_value_that_is_too_large_is_not_written(page):
    host = Host(Keys())

    assert put(host, page, b"k", b"v" * VALUE_LENGTH_MAX) == 0
    assert put(host, page, b"l", b"v" * (VALUE_LENGTH_MAX + 1)) == VALUE_TOO_LARGE
    assert [effect.key for effect in host.effects] == ["k"]


def test_so_many_keys_are_written_and_no_more(page):
    host = Host(Keys())
    for number in range(WRITES_MAX):
        put(host, page, f"key-{number}".encode(), b"v")
    put(host, page, b"key-0", b"again")

    with pytest.raises(Fault, match=f"at most {WRITES_MAX} keys written") as broken:
        put(host, page, b"one more", b"")
    assert broken.value.kind is TrapKind.LIMIT_EXCEEDED


def test_so_many_bytes_are_written_and_no_more(page):
    host = Host(Keys())
    value = b"v" * (WRITES_LENGTH_MAX // 4 - 1)
    for key in (b"a", b"b", b"c", b"d", b"a", b"b"):
        assert put(host, page, key, value) == 0

    with pytest.raises(Fault, match=f"at most {WRITES_LENGTH_MAX} bytes written"):
        put(host, page, b"e", b"")


def test_so_many_keys_are_read_and_no_more(page):
    host = Host(Keys())
    for number in range(READS_MAX):
        get(host, page, f"key-{number}".encode(), room=0)
    get(host, page, b"key-0", room=0)

    with pytest.raises(Fault, match=f"at most {READS_MAX} keys read"):
        get(host, page, b"one more", room=0)


def test_so_many_bytes_are_read_and_no_more(page):
    host = Host(Keys(**{f"key{number}": b"v" * (READS_LENGTH_MAX // 4) for number in range(5)}))
    for number in range(4):
        get(host, page, f"key{number}".encode(), room=0)

    with pytest.raises(Fault, match=f"at most {READS_LENGTH_MAX} bytes read"):
        get(host, page, b"key4", room=0)


def test_lines_are_kept_within_bounds(page):
    host = Host(Keys())
    host.log(page, -5, page.holding(b"a \xff line"))
    host.log(page, 99, page.holding(b"x" * (LOG_LENGTH_MAX + 1)))
    for _ in range(LOGS_MAX):
        host.log(page, 1, page.holding(b"more"))

    assert host.logs[0] == LogLine(level=0, message="a � line")
    assert host.logs[1] == LogLine(level=3, message="x" * LOG_LENGTH_MAX)
    assert (len(host.logs), host.logs_dropped) == (LOGS_MAX, 2)


u32 = st.integers(0, 2**32 - 1) | st.integers(0, 70_000)
spans = st.builds(Span, u32, u32)


@given(spans, spans)
def test_no_pointer_reaches_out_of_the_page(key, other):
    """Page itself asserts that it is only ever touched in range."""
    for function in ("kv_get", "kv_set"):
        host, page = Host(AllKeys()), Page()
        fault = fault_of(getattr(host, function), page, key, other)

        assert (fault is None) == (max(sum(key), sum(other)) <= page.length())
        if fault is not None:
            assert fault.kind is TrapKind.OUT_OF_BOUNDS
            assert (host.effects, host.reads, any(page.data)) == ((), {}, False)


@given(spans)
def test_no_pointer_of_one_text_reaches_out_of_the_page(span):
    for function in (Host.kv_delete, lambda host, page, text: host.log(page, 1, text)):
        host, page = Host(AllKeys()), Page()
        fault = fault_of(function, host, page, span)

        assert (fault is None) == (sum(span) <= page.length())
        if fault is not None:
            assert fault.kind is TrapKind.OUT_OF_BOUNDS
            assert (host.effects, host.logs) == ((), [])


class AllKeys:
    def read(self, key):
        return Stored(value=b"\x01" * 100, version=1)
