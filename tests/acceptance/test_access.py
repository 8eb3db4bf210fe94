"""A secured server as a real process: TLS, tokens, revocation, a new certificate, an issuer."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import jwt
import pytest
from certificates import Authority
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from flo import Flo, Forbidden, Unauthenticated, Unavailable
from flo.testing.process import ServerProcess

HALF_OPEN = 1_000


def flo_command(*words, **settings):
    """What a command of the command line prints."""
    command = [sys.executable, "-m", "flo.cli.app.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


class Secured:
    """A server with a certificate and an administrator's token."""

    def __init__(self, folder, **settings):
        self.authority = Authority(folder)
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.serial = self.authority.sign(self.cert, self.key)
        self.ca = str(self.authority.file)
        self.token = flo_command("server", "init", "--data-dir", folder / "data").stdout.strip()
        self.process = ServerProcess(
            folder / "data", tls_cert=self.cert, tls_key=self.key, **settings
        )

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        self.process.stop()

    @property
    def address(self):
        return f"flo+tls://{self.process.address}"

    def client(self, token=None, **settings):
        return Flo(self.address, token=token or self.token, ca=self.ca, timeout=5, **settings)

    async def settled(self, is_so):
        """Wait until it is so; the timeout of tests bounds it."""
        for _ in range(1_000):
            if is_so():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it has not become so")

    def presented_serial(self):
        host, port = self.process.address.split(":")
        context = ssl.create_default_context(cafile=self.ca)
        with (
            socket.create_connection((host, int(port)), 5) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown).serial_number


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with Secured(tmp_path_factory.mktemp("secured")) as server:
        yield server


async def test_only_who_has_a_token_is_let_in_and_only_over_tls(secured):
    async with secured.client() as flo:
        await flo.actions.register("send-email")
    with pytest.raises(Unauthenticated):
        await Flo(secured.address, token="flo_guessed", ca=secured.ca).connect()
    with pytest.raises(Unavailable):
        await Flo(secured.process.address, token=secured.token).connect()
    with pytest.raises(Unavailable):  # it does not trust the authority
        await Flo(secured.address, token=secured.token).connect()
    async with httpx.AsyncClient(
        base_url=secured.process.http_url, verify=ssl.create_default_context(cafile=secured.ca)
    ) as http:
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/api/v1/actions")).status_code == 401
        bearer = {"Authorization": f"Bearer {secured.token}"}
        assert (await http.get("/api/v1/actions", headers=bearer)).json()["items"]


async def test_a_session_of_a_browser_needs_its_word_for_changes(secured):
    async with httpx.AsyncClient(
        base_url=f"{secured.process.http_url}/api/v1",
        verify=ssl.create_default_context(cafile=secured.ca),
    ) as http:
        bearer = {"Authorization": f"Bearer {secured.token}"}
        begun = await http.post("/session", headers=bearer)
        cookie = begun.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "secure"))
        assert secured.token not in begun.text
        assert (await http.get("/tokens")).status_code == 200
        forged = await http.post("/namespaces", json={"name": "web"})
        assert forged.json()["error"]["code"] == "csrf"
        word = {"Flo-Csrf": begun.json()["csrf"]}
        made = await http.post("/namespaces", json={"name": "web"}, headers=word)
        assert made.status_code == 201
        assert (await http.delete("/session", headers=word)).status_code == 204
        assert (await http.get("/tokens")).status_code == 401


async def test_a_revoked_token_ends_the_connections_that_came_with_it(secured):
    async with secured.client() as root:
        made = await root.tokens.create("guest", role="viewer")
        async with secured.client(made.secret) as guest:
            await guest.actions.list()
            with pytest.raises(Forbidden):
                await guest.actions.register("send-email")
            await root.tokens.revoke("guest")
            with pytest.raises(Unauthenticated):
                await guest.actions.list()


async def test_a_new_certificate_is_shown_after_sighup_and_nobody_is_hung_up_on(secured):
    async with secured.client() as flo:
        assert secured.presented_serial() == secured.serial
        serial = secured.serial = secured.authority.sign(secured.cert, secured.key)
        os.kill(secured.process.pid, signal.SIGHUP)
        await secured.settled(lambda: secured.presented_serial() == serial)
        await flo.ping()


async def test_a_broken_certificate_leaves_the_one_before_in_use(secured):
    secured.cert.write_text("no certificate")
    os.kill(secured.process.pid, signal.SIGHUP)
    lines = secured.process.log_lines
    await secured.settled(lambda: any("certificate_not_reloaded" in line for line in tuple(lines)))

    assert secured.presented_serial() == secured.serial


async def test_half_open_handshakes_disturb_nobody(secured):
    host, port = secured.process.address.split(":")
    half_open = [socket.create_connection((host, int(port)), 5) for _ in range(HALF_OPEN)]
    try:
        for one in half_open:
            one.send(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a hello that never ends
        async with secured.client() as flo:
            await flo.actions.register("send-email")
            for _ in range(20):
                await flo.actions.invoke("send-email", {})
    finally:
        for one in half_open:
            one.close()


@pytest.mark.parametrize(
    ("flags", "lacks"),
    [
        ((), "authentication and TLS"),
        (("--auth", "on"), "TLS"),
        (("--insecure",), "authentication"),
    ],
)
def test_a_server_that_others_could_use_does_not_start(tmp_path, flags, lacks):
    started = flo_command(
        "server", "start", "--host", "0.0.0.0", "--data-dir", tmp_path / "data", *flags
    )

    assert started.returncode != 0
    assert f"without {lacks}" in started.stderr
    assert "flo server init" in started.stderr
    assert "--tls-cert" in started.stderr


class Issuer:
    """Signs tokens, and serves the keys to check them with."""

    def __init__(self):
        self.private = {}
        self.rotate("first")
        issuer = self

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self):
                keys = [
                    {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": name}
                    for name, key in issuer.private.items()
                ]
                body = json.dumps({"keys": keys}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/keys"

    def rotate(self, name):
        self.private[name] = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)

    def token(self, name="first", key=None, **claims):
        told = {
            "iss": "https://login.example.com",
            "aud": "flo",
            "sub": "alice",
            "groups": ["flo-viewers"],
            "exp": int(time.time()) + 600,
            **claims,
        }
        signing = key or self.private[name]
        return jwt.encode(told, signing, algorithm="RS256", headers={"kid": name})


CONFIG = """
[oidc]
issuer = "https://login.example.com"
audience = "flo"
jwks = "{url}"
allow_private = true
rules = [{{ claim = "groups", value = "flo-viewers", role = "viewer", namespaces = ["shop"] }}]
"""


async def test_an_issuer_vouches_for_its_people(tmp_path):
    issuer = Issuer()
    (tmp_path / "flo.toml").write_text(CONFIG.format(url=issuer.url))
    forger = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    with Secured(tmp_path, config=tmp_path / "flo.toml") as server:
        async with server.client(issuer.token(), namespace="shop") as flo:
            assert (await flo.actions.list()).items == []
            with pytest.raises(Forbidden):
                await flo.actions.register("send-email")
        for refused in (
            issuer.token(key=forger),
            issuer.token(aud="other"),
            issuer.token(iss="https://evil.example"),
            issuer.token(exp=int(time.time()) - 3_600),
            issuer.token(groups=["others"]),
            jwt.encode({"sub": "alice"}, "", algorithm="none", headers={"kid": "first"}),
        ):
            with pytest.raises(Unauthenticated):
                await server.client(refused).connect()
    issuer.server.shutdown()
    issuer.server.server_close()
