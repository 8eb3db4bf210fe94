import pytest

from flo.model.errors import Invalid
from flo.wire.strangers import check_answer


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            b'HTTP/1.1 400 Bad Request\r\n\r\n{"error":{"details":{"rpc":"10.0.0.1:9100"}}}',
            "this is the HTTP port, RPC is on 10.0.0.1:9100",
        ),
        (b"HTTP/1.1 200 OK\r\n", "this is the HTTP port, RPC is on another, usually 9000"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "this port speaks TLS, and it was spoken to without"),
    ],
)
def test_an_answer_of_another_protocol_says_which_port_it_is(data, said):
    with pytest.raises(Invalid) as refusal:
        check_answer(data)

    assert (refusal.value.message, refusal.value.code) == (said, "wrong_port")


@pytest.mark.parametrize("data", [b"\0\0\0\x10abcd", b"", b"\x16"])
def test_frames_are_let_through(data):
    check_answer(data)
