import pytest

from flo.server.hosts import AllowedHosts

CONFIGURED = AllowedHosts(["flo.example.com", " Flo.Internal. ", ""])


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1",
        b"127.0.0.1:9002",
        b"10.0.0.7:80",
        b"[::1]",
        b"[::1]:9002",
        b"[fe80::1%eth0]:9002",
        b"localhost",
        b"LocalHost.:9002",
        b"localhost:",
        b"flo.example.com",
        b"FLO.internal:9002",
    ],
)
def test_addresses_localhost_and_configured_names_are_allowed(host):
    assert CONFIGURED.allows([host])


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [b""],
        [b"localhost", b"localhost"],
        [b"evil.example"],
        [b"evil.example:9002"],
        [b"localhost.evil.example"],
        [b"127.0.0.1.evil.example"],
        [b"evil.flo.example.com"],
        [b"127.0.0.1@evil.example"],
        [b"localhost evil.example"],
        [b"localhost:9002:1"],
        [b"localhost:x"],
        [b"127.1"],
        [b"::1"],
        [b"*"],
        [b"\xff"],
    ],
)
def test_nothing_else_is(hosts):
    assert not CONFIGURED.allows(hosts)


def test_a_star_allows_every_name_but_no_nonsense():
    assert AllowedHosts(["*"]).allows([b"evil.example"])
    assert not AllowedHosts(["*"]).allows([b"a b"])


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [
        (b"http://127.0.0.1:9002", True),
        (b"https://flo.example.com", True),
        (b"https://flo.internal:8443", True),
        (b"http://127.0.0.1:9003", False),
        (b"http://evil.example", False),
        (b"null", False),
        (b"http://[", False),
    ],
)
def test_pages_of_the_same_host_and_of_configured_names_are_ours(origin, is_ours):
    assert CONFIGURED.allows_origin(origin, b"127.0.0.1:9002") is is_ours
