import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.wasm.abi import Fault, Span, check_span, fault_of_code, pack, unpack, unsigned
from flo.wasm.outcome import RETRIED, TrapKind
from wasm.guests import fault_of

u32 = st.integers(0, 2**32 - 1)


@given(st.integers(0, 2**31 - 1), u32)
def test_what_is_packed_is_unpacked(pointer, length):
    packed = pack(Span(pointer, length))

    assert 0 <= packed < 2**63
    assert unpack(packed) == Span(pointer, length)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_pointer_has_no_sign(number):
    assert unsigned(number) == number % 2**32


@given(u32, u32, st.integers(0, 2**32))
def test_a_span_is_in_range_if_its_every_byte_is(pointer, length, memory_length):
    fault = fault_of(check_span, Span(pointer, length), memory_length, "an output")

    assert (fault is None) == (pointer + length <= memory_length)
    assert fault is None or fault.kind is TrapKind.OUT_OF_BOUNDS


@pytest.mark.parametrize(
    ("span", "fits"),
    [
        (Span(0, 0), True),
        (Span(65_536, 0), True),
        (Span(65_535, 1), True),
        (Span(65_536, 1), False),
        (Span(1, 2**32 - 1), False),
        (Span(2**32 - 1, 2**32 - 1), False),
    ],
)
def test_the_edges_of_a_page(span, fits):
    if fits:
        check_span(span, 65_536, "a key")
    else:
        with pytest.raises(Fault, match="expected a key within the 65536 bytes of memory, got"):
            check_span(span, 65_536, "a key")


@pytest.mark.parametrize(
    ("code", "kind", "retried", "said"),
    [
        (-1, TrapKind.INVALID_INPUT, False, "handle returned -1: invalid input"),
        (-2, TrapKind.ALLOCATION_FAILED, False, "handle returned -2: allocation failed"),
        (-3, TrapKind.EXECUTION_ERROR, True, "handle returned -3: execution error"),
        (-4, TrapKind.GUEST_ERROR, True, "handle returned -4: a code of the guest's own"),
        (-(2**63), TrapKind.GUEST_ERROR, True, f"handle returned {-(2**63)}: a code of the"),
    ],
)
def test_what_a_negative_result_means(code, kind, retried, said):
    fault = fault_of_code(code, "handle")

    assert fault.kind is kind
    assert (kind in RETRIED) == retried
    assert fault.message.startswith(said)
