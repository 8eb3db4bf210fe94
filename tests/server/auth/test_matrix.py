"""Every operation, every role, own and foreign namespaces, every standing of a token: allowed as
the table of roles says, and in no other case. Operations come from the catalog, so that none is
forgotten."""

import asyncio

import pytest

from flo.model.access.tokens import CreateToken, RevokeToken
from flo.model.errors import FloError, Forbidden, Unauthenticated
from flo.model.runs import GetRun
from flo.server.auth import guard as guards
from flo.server.auth.rules import Ruling

from .tenants import ABSENT, FOREIGN, OPERATIONS, OWN, ROLES, SCOPE, message_of, tenants


async def asked(guard, message):
    """The answer, by the road of HTTP."""
    try:
        return await asyncio.wait_for(guard.ask(message), 5)
    except FloError as error:
        return error


async def submitted(guard, message):
    """The answer, by the road of RPC."""
    told = asyncio.get_running_loop().create_future()
    guard.submit([message], lambda answers: told.set_result(answers[0]))
    return await asyncio.wait_for(told, 5)


ROADS = {"rpc": submitted, "http": asked}


def is_allowed(operation, role, *, scoped):
    """As the table says it; what belongs to no namespace is not for those confined to some."""
    permissions = ROLES[role].permissions | ROLES[role].own
    names = operation.name
    has_no_namespace = names.endswith(("_token", "_tokens"))
    if has_no_namespace and scoped:
        return False
    is_list = "run" in names and names.startswith("list_")
    if operation.permission in ROLES[role].own and (is_list or not _is_by_id(operation)):
        return False
    return operation.permission in permissions


def _is_by_id(operation):
    fields = operation.message.__struct_fields__
    return bool({"run_id", "run_ids", "id"} & set(fields))


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_what_the_table_says_and_nothing_else(role, road):
    async with tenants() as both:
        guard = await both.guard(role, namespaces=SCOPE)
        for operation in OPERATIONS:
            message = message_of(operation, OWN)
            before = both.fingerprint
            if is_allowed(operation, role, scoped=True):
                if operation.waits or not operation.is_query:
                    continue  # it waits, or changes what the others are about
                answer = await ROADS[road](guard, message)
                assert not isinstance(answer, Forbidden | Unauthenticated), operation.name
            else:
                answer = await ROADS[road](guard, message)
                assert isinstance(answer, Forbidden), (operation.name, answer)
                assert both.fingerprint == before, operation.name


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_change_what_the_table_says(role):
    """Each in a world of its own would take long: what one changes, another may still name."""
    async with tenants() as both:
        guard = await both.guard(role, namespaces=SCOPE)
        for operation in OPERATIONS:
            if operation.waits or operation.is_query or operation.name == "delete_namespace":
                continue
            if is_allowed(operation, role, scoped=True):
                answer = await submitted(guard, message_of(operation, OWN))
                assert not isinstance(answer, Forbidden | Unauthenticated), operation.name


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("role", ROLES)
async def test_a_foreign_namespace_is_answered_like_one_that_is_not_there(role, road):
    async with tenants() as both:
        guard = await both.guard(role, namespaces=SCOPE)
        compared = 0
        for operation in OPERATIONS:
            if not is_allowed(operation, role, scoped=True) or operation.name == "list_namespaces":
                continue
            if "namespace" not in operation.message.__struct_fields__:
                continue
            before = both.fingerprint
            foreign = await ROADS[road](guard, message_of(operation, FOREIGN))
            assert both.fingerprint == before, operation.name
            if isinstance(foreign, Forbidden):
                continue  # it would have made something there
            absent = await ROADS[road](guard, message_of(operation, ABSENT))
            assert as_seen(foreign) == as_seen(absent), operation.name
            compared += 1
        assert compared or role == "admin" or not ROLES[role].permissions


def as_seen(answer):
    if isinstance(answer, FloError):
        return type(answer), answer.code, answer.message, answer.details
    return answer


async def test_control_a_refusal_of_its_own_would_tell_a_foreign_namespace_from_none(monkeypatch):
    async with tenants() as both:
        guard = await both.guard("viewer", namespaces=SCOPE)

        async def tell(self, message, caller):
            raise Forbidden("this is somebody else's")

        monkeypatch.setattr(guards.Guard, "_nothing_there", tell)
        query = GetRun(run_id="send-email-1", namespace=FOREIGN)
        foreign = await asked(guard, query)
        absent = await asked(guard, GetRun(run_id="send-email-1", namespace=ABSENT))

        assert as_seen(foreign) != as_seen(absent)


async def test_control_without_the_check_of_scopes_a_foreign_run_is_read(monkeypatch):
    async with tenants() as both:
        guard = await both.guard("viewer", namespaces=SCOPE)
        query = GetRun(run_id="send-email-1", namespace=FOREIGN)
        assert isinstance(await asked(guard, query), FloError)

        monkeypatch.setattr(guards, "verdict_on", lambda identity, message: Ruling.ALLOWED)

        assert (await asked(guard, query)).run_id == "send-email-1"


@pytest.mark.parametrize("road", ROADS)
async def test_a_revoked_token_may_do_nothing_on_a_connection_that_is_open(road):
    async with tenants() as both:
        guard = await both.guard("admin")
        name = guard.identity.name
        await both.router.ask(RevokeToken(name=name))
        before = both.fingerprint
        for operation in OPERATIONS:
            answer = await ROADS[road](guard, message_of(operation, OWN))
            assert isinstance(answer, Unauthenticated), operation.name
            assert answer.code == "token_revoked"
        assert both.fingerprint == before


@pytest.mark.parametrize("road", ROADS)
async def test_an_expired_token_may_do_nothing(road):
    async with tenants() as both:
        guard = await both.guard("admin", expires_at_ms=both.clock.now_ms() + 1_000)
        both.clock.advance(1_000)
        before = both.fingerprint
        for operation in OPERATIONS:
            answer = await ROADS[road](guard, message_of(operation, OWN))
            assert answer.code == "token_expired", operation.name
        assert both.fingerprint == before


@pytest.mark.parametrize("credential", ["", "flo_unknown", "x", "flo_" + "x" * 100_000])
async def test_without_a_token_that_is_known_nobody_is_let_in(credential):
    async with tenants() as both:
        with pytest.raises(Unauthenticated) as refused:
            both.access.identify(credential)

        assert not credential or credential not in refused.value.message


async def test_every_refusal_is_told_with_who_asked():
    async with tenants() as both:
        guard = await both.guard("viewer", namespaces=SCOPE)
        message = CreateToken(name="x", role="admin", digest="0" * 64)

        await asked(guard, message)

        ((caller, told, error),) = both.told
        assert (told, error.code) == (message, "forbidden")
        assert caller is not None
