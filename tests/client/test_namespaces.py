import pytest

from flo import Conflict, Flo, NotFound
from flo.server.server import Server


async def test_a_namespace_is_made_found_listed_and_deleted(flo: Flo) -> None:
    await flo.namespaces.create("prod")
    with pytest.raises(Conflict):
        await flo.namespaces.create("prod")

    assert (await flo.namespaces.get("prod")).actions == 0
    page = await flo.namespaces.list(limit=1)
    rest = await flo.namespaces.list(limit=1, cursor=page.cursor)
    assert [one.name for one in (*page.items, *rest.items)] == ["default", "prod"]

    await flo.namespaces.delete("prod")
    with pytest.raises(NotFound):
        await flo.namespaces.get("prod")


async def test_a_namespace_with_something_in_it_is_deleted_by_force(
    server: Server, flo: Flo
) -> None:
    async with Flo(server.address, namespace="prod") as prod:
        await prod.actions.register("send-email")
        await prod.actions.invoke("send-email")
    assert (await flo.namespaces.get("prod")).runs["pending"] == 1

    with pytest.raises(Conflict, match="1 actions"):
        await flo.namespaces.delete("prod")
    await flo.namespaces.delete("prod", force=True)
    assert [one.name for one in (await flo.namespaces.list()).items] == ["default"]


async def test_the_same_names_in_two_namespaces_are_two_things(server: Server) -> None:
    async with (
        Flo(server.address, namespace="prod") as prod,
        Flo(server.address, namespace="staging") as staging,
    ):
        for flo in (prod, staging):
            await flo.actions.register("send-email")
            invocation = await flo.actions.invoke("send-email", idempotency_key="once")
            assert (invocation.run_id, invocation.duplicate) == ("send-email-1", False)
        await prod.workers.register("anna", ["send-email"])

        assert (await prod.workers.claim("anna", ["send-email"])).tasks
        assert (await staging.actions.status("send-email-1")).status == "pending"
        with pytest.raises(NotFound):
            await staging.workers.get("anna")
