"""Who is let in, who is told so late, and who gives away no more than he has."""

import pytest

from flo.core.tokens import digest_of
from flo.model.access.tokens import CreateToken, ListTokens, RotateToken
from flo.model.actions import ListActions
from flo.model.errors import Forbidden, Invalid, NotFound, Unauthenticated
from flo.model.runs import GetRun, Invoke
from flo.model.storage.caller import Caller, Source
from flo.model.streams import ListStreams
from flo.model.workflows import GetWorkflowRun, ListWorkflows, StartWorkflow
from flo.server.auth.attempts import DELAY_MS_MAX, FREE_MAX, WINDOW_MS, FailedAttempts
from flo.server.auth.identity import LOCAL, NameScope
from flo.server.auth.roles import ROLES, roles_with

from .tenants import OWN, tenants


def caller_of(guard):
    return Caller(source=Source.RPC, actor=guard.identity.actor)


async def test_a_token_makes_known_who_asks_and_when_it_was_used():
    async with tenants() as both:
        identity = both.access.identify(await both.token("ci", "viewer", only=["send-*"]))

        assert (identity.name, identity.role, identity.actor) == ("ci", "viewer", "token:ci")
        assert identity.is_scoped
        (token,) = (await both.router.ask(ListTokens())).items
        assert token.last_used_at_ms == both.clock.now_ms()


async def test_where_nobody_is_asked_everybody_may_do_everything():
    async with tenants() as both:
        both.access.is_on = False

        assert both.access.identify("") is LOCAL
        assert both.access.guard_for(LOCAL) is None


async def test_a_list_shows_what_may_be_seen_and_no_cursor_names_the_rest():
    async with tenants() as both:
        guard = await both.guard("viewer", namespaces=[OWN], only=["send-*"])

        actions = await guard.ask(ListActions(namespace=OWN, limit=1))
        assert [one.name for one in actions.items] == ["send-email"]
        assert (await guard.ask(ListStreams(namespace=OWN))).items == []
        assert (await guard.ask(ListWorkflows(namespace=OWN, limit=1))).cursor is None


async def test_an_invoker_reads_what_it_began_and_nothing_else():
    async with tenants() as both:
        guard = await both.guard("invoker", namespaces=[OWN])
        caller = caller_of(guard)
        run = await guard.ask(Invoke(action="send-email", input=b"1", namespace=OWN), caller)
        started = await guard.ask(StartWorkflow(name="order", input=b"1", namespace=OWN), caller)

        await guard.ask(GetRun(run_id=run.run_id, namespace=OWN))
        await guard.ask(GetWorkflowRun(run_id=started.run_id, namespace=OWN))
        with pytest.raises(NotFound):
            await guard.ask(GetRun(run_id="send-email-1", namespace=OWN))
        with pytest.raises(NotFound):
            await guard.ask(GetWorkflowRun(run_id="wfrun-1", namespace=OWN))


async def test_nobody_makes_a_token_that_may_do_more_than_he():
    async with tenants() as both:
        both.access.roles = roles_with({"clerk": ["access:*", "actions:read"]})
        guard = await both.guard("clerk")
        digest = digest_of("flo_new")

        with pytest.raises(Forbidden):
            await guard.ask(CreateToken(name="x", role="admin", digest=digest))
        with pytest.raises(Invalid):
            await guard.ask(CreateToken(name="x", role="none", digest=digest))
        await both.token("root", "admin")
        with pytest.raises(Forbidden):
            await guard.ask(RotateToken(name="root", digest=digest))


async def test_a_batch_is_answered_one_by_one():
    async with tenants() as both:
        guard = await both.guard("invoker", namespaces=[OWN])
        told = []
        messages = [
            Invoke(action="send-email", input=b"1", namespace=namespace)
            for namespace in (OWN, "foreign", OWN)
        ]
        guard.submit(messages, told.append, caller_of(guard))
        while both.access.tasks:
            await next(iter(both.access.tasks))

        ((first, second, third),) = told
        assert (first.run_id, second.code, third.run_id) == (
            "send-email-3",
            "action_not_found",
            "send-email-4",
        )


def test_who_fails_again_and_again_is_told_so_later_and_later():
    attempts = FailedAttempts()
    delays = [attempts.failed("10.0.0.1", 0) for _ in range(FREE_MAX + 10)]

    assert delays[:FREE_MAX] == [0] * FREE_MAX
    assert delays[FREE_MAX:] == sorted(delays[FREE_MAX:])
    assert delays[-1] == DELAY_MS_MAX
    assert attempts.failed("10.0.0.2", 0) == 0
    assert attempts.failed("10.0.0.1", WINDOW_MS) == 0


async def test_a_refusal_does_not_repeat_the_token():
    async with tenants() as both:
        with pytest.raises(Unauthenticated) as refused:
            both.access.identify("flo_canary")

        assert "canary" not in f"{refused.value.message}{refused.value.details}"


def test_a_scope_covers_what_is_within_it():
    assert NameScope().covers(NameScope(["a"]))
    assert NameScope(["send-*"]).covers(NameScope(["send-email"]))
    assert not NameScope(["send-*"]).covers(NameScope())
    assert not NameScope(["send-*"]).covers(NameScope(["*"]))


def test_a_role_of_the_file_has_the_permissions_that_fit():
    roles = roles_with({"reader": ["*:read"]})

    assert {one.value for one in roles["reader"].permissions} >= {"runs:read", "access:read"}
    with pytest.raises(Invalid):
        roles_with({"reader": ["nothing:at-all"]})
    with pytest.raises(Invalid):
        roles_with({next(iter(ROLES)): ["*:read"]})
