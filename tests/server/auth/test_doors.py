"""Every door asks who it is: every route and every opcode, generated from what there is."""

import re
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest

from flo.client.session.session import Session
from flo.client.session.transport import tcp
from flo.core.tokens import digest_of
from flo.model.access.tokens import CreateToken, RevokeToken
from flo.model.errors import Unauthenticated
from flo.server.auth.access import Access
from flo.server.auth.attempts import FREE_MAX
from flo.server.config import AuthMode, Durability, ServerConfig
from flo.server.http.shape import shape_of
from flo.server.server import Server
from flo.shard.snapshot import fingerprint

from .tenants import FOREIGN, OPERATIONS, OWN, ROLES, SCOPE, Tenants, message_of

FOR_EVERYBODY = {"/health", "/ready"}
API = "/api/v1"


class SecuredDoors:
    def __init__(self, server):
        self.server = server
        self.http = httpx.AsyncClient(base_url=server.http_url)

    async def token(self, name, role, **settings):
        secret = f"flo_{name}"
        await self.server.shard.ask(
            CreateToken(name=name, role=role, digest=digest_of(secret), **settings)
        )
        return secret

    @property
    def fingerprint(self):
        return fingerprint(self.server.shard.state)

    def session(self, token):
        return Session(tcp(self.server.address), self.server.address, timeout_s=5, token=token)


@asynccontextmanager
async def secured_doors():
    config = ServerConfig(
        port=0,
        http_port=0,
        metrics_port=0,
        durability=Durability.EPHEMERAL,
        auth=AuthMode.ON,
    )
    async with Server(config) as server:
        doors = SecuredDoors(server)
        furnished = Tenants.__new__(Tenants)
        furnished.router = server.shard
        for namespace in (OWN, FOREIGN):
            await furnished.furnish(namespace)
        async with doors.http:
            yield doors


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def routes(doors):
    document = (await doors.http.get("/openapi.json", headers=bearer(doors.root))).json()
    for path, methods in document["paths"].items():
        for method in methods:
            yield re.sub(r"{\w+}", "x", path), method.upper()


async def test_every_route_asks_for_a_token_and_says_how():
    async with secured_doors() as doors:
        doors.root = await doors.token("root", "admin")
        revoked = await doors.token("gone", "admin")
        await doors.server.shard.ask(RevokeToken(name="gone"))
        doors.server._access.attempts.failed = lambda address, now_ms: 0  # nobody waits here
        before, seen = doors.fingerprint, 0
        async for path, method in routes(doors):
            for headers in ({}, bearer("flo_guessed"), bearer(revoked)):
                answer = await doors.http.request(method, path, headers=headers)
                if path in FOR_EVERYBODY:
                    assert answer.status_code == 200
                    continue
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                seen += 1
        assert seen > 3 * len([one for one in OPERATIONS if one.http])
        assert doors.fingerprint == before


async def test_a_token_in_the_address_is_not_looked_at():
    async with secured_doors() as doors:
        token = await doors.token("root", "admin")
        for name in ("token", "access_token", "Authorization"):
            answer = await doors.http.get(f"{API}/actions", params={name: token})
            assert answer.status_code == 401


@pytest.mark.parametrize("role", ROLES)
async def test_a_route_lets_a_role_do_what_the_table_says(role):
    async with secured_doors() as doors:
        token = await doors.token(f"a-{role}", role, namespaces=SCOPE)
        for operation in OPERATIONS:
            if operation.http is None or operation.waits:
                continue
            has_permission = operation.permission in ROLES[role].permissions
            if has_permission and not operation.is_query:
                continue  # it would change what the others are about
            before = doors.fingerprint
            method, path, body = _request(operation, message_of(operation, OWN))
            answer = await doors.http.request(method, path, json=body, headers=bearer(token))
            is_own = operation.permission in ROLES[role].own
            if not has_permission and not is_own:
                assert answer.status_code == 403, (operation.name, answer.text)
                assert doors.fingerprint == before
            elif has_permission and not operation.name.endswith("tokens"):
                assert answer.status_code not in (401, 403), (operation.name, answer.text)


def _request(operation, message):
    """Method, address and body of a message."""
    shape = shape_of(operation, operation.http)
    required = {one.name for one in msgspec.structs.fields(operation.message) if one.required}
    path = operation.http.path
    for one in shape.in_path:
        path = path.replace(f"{{{one.name}}}", str(getattr(message, one.field)))
    query = "&".join(
        f"{one.name}={getattr(message, one.field)}"
        for one in shape.in_query
        if one.name == "namespace" or one.field in required
    )
    body = {
        one.name: 1 if one.is_payload else msgspec.to_builtins(getattr(message, one.field))
        for one in shape.in_body
        if one.field in required
    }
    return operation.http.method, f"{API}{path}?{query}", body if shape.in_body else None


async def test_what_counts_all_namespaces_is_for_those_who_may_see_all():
    async with secured_doors() as doors:
        everywhere = await doors.token("all", "viewer")
        somewhere = await doors.token("some", "viewer", namespaces=SCOPE)
        for path in ("/metrics", f"{API}/server"):
            assert (await doors.http.get(path, headers=bearer(everywhere))).status_code == 200
            assert (await doors.http.get(path, headers=bearer(somewhere))).status_code == 403


async def test_over_rpc_a_hello_without_a_known_token_is_the_last_thing_said():
    async with secured_doors() as doors:
        for token in ("", "flo_guessed"):
            session = doors.session(token)
            with pytest.raises(Unauthenticated):
                await session.connect()
            await session.close()


async def test_a_conversation_ends_when_its_token_is_revoked():
    async with secured_doors() as doors:
        root = doors.session(await doors.token("root", "admin"))
        guest = doors.session(await doors.token("guest", "viewer"))
        await root.connect()
        await guest.connect()
        await guest.call(message_of(_named("get_key"), OWN))
        await root.call(RevokeToken(name="guest"))

        with pytest.raises(Unauthenticated):
            await guest.call(message_of(_named("get_run"), OWN))
        assert len(doors.server._access.conversations) == 1
        await root.close()
        await guest.close()


def _named(name):
    return next(one for one in OPERATIONS if one.name == name)


async def test_who_guesses_is_answered_later_and_later(monkeypatch):
    delays = []
    original = Access.failed

    def failed(self, address):
        delays.append(original(self, address))
        return 0

    monkeypatch.setattr(Access, "failed", failed)
    async with secured_doors() as doors:
        for _ in range(FREE_MAX + 2):
            await doors.http.get(f"{API}/actions", headers=bearer("flo_guessed"))

    assert delays[:FREE_MAX] == [0] * FREE_MAX
    assert all(delays[FREE_MAX:])


async def test_the_port_of_the_metrics_asks_too_unless_it_is_open():
    for is_open, status in ((False, 401), (True, 200)):
        config = ServerConfig(
            port=-1,
            http_port=-1,
            metrics_port=0,
            durability=Durability.EPHEMERAL,
            auth=AuthMode.ON,
            metrics_open=is_open,
        )
        async with Server(config) as server, httpx.AsyncClient() as http:
            answer = await http.get(f"http://127.0.0.1:{server.metrics_port}/metrics")
            assert answer.status_code == status
