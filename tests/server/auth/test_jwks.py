"""Keys of an issuer: from public addresses alone, and fetched again when they may have changed."""

import json

import pytest

from flo.model.errors import Unavailable
from flo.server.auth.jwks import AGAIN_MS, FRESH_MS, KeySet, fetch, is_public
from flo.testing.clock import ManualClock

PRIVATE = (
    "127.0.0.1",
    "127.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "0.0.0.0",
    "100.64.0.1",
    "224.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "2002:7f00:1::",
)


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_a_private_network_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111"])
def test_an_address_of_the_public_network_is_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/keys",
        "https://localhost/keys",
        "https://[::1]/keys",
        "https://2130706433/keys",
        "https://0x7f.1/keys",
        "http://1.1.1.1/keys",
        "file:///etc/passwd",
        "ftp://1.1.1.1/keys",
    ],
)
def test_what_is_not_a_public_address_over_tls_is_not_fetched(url):
    with pytest.raises(OSError, match=r"private|https|not known|resolution"):
        fetch(url)


async def test_keys_are_read_again_when_they_are_old_or_one_is_not_known(tmp_path):
    clock, file = ManualClock(), tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [{"kid": "a", "kty": "RSA"}]}))
    keys = KeySet(str(file), clock)
    assert await keys.key("a") is not None

    file.write_text(json.dumps({"keys": [{"kid": "b", "kty": "RSA"}]}))
    assert await keys.key("b") is None
    clock.advance(AGAIN_MS)
    assert await keys.key("b") is not None
    file.write_text(json.dumps({"keys": []}))
    clock.advance(AGAIN_MS)
    assert await keys.key("b") is not None
    clock.advance(FRESH_MS)
    assert await keys.key("b") is None


async def test_a_secret_that_both_sides_know_is_no_key(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [{"kid": "a", "kty": "oct", "k": "c2VjcmV0"}]}))

    assert await KeySet(str(file), ManualClock()).key("a") is None


async def test_keys_that_cannot_be_read_let_nobody_in(tmp_path):
    with pytest.raises(Unavailable):
        await KeySet(str(tmp_path / "none.json"), ManualClock()).key("a")
