import pytest

from flo.client.session.transport import parse_address
from flo.model.errors import Invalid


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:9000", "127.0.0.1", 9000),
        ("flo.example.com:80", "flo.example.com", 80),
        ("flo.example.com", "flo.example.com", 9000),
        ("[::1]:7000", "::1", 7000),
        ("[::1]", "::1", 9000),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, host: str, port: int) -> None:
    assert parse_address(address) == (host, port)


@pytest.mark.parametrize("address", ["", ":9000", "host:", "host:http", "host:70000", "::1", "[]"])
def test_what_is_no_address_is_shown_back(address: str) -> None:
    with pytest.raises(Invalid, match="got") as raised:
        parse_address(address)

    assert repr(address) in raised.value.message
    assert raised.value.code == "invalid_address"
