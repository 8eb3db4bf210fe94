from blocks.network import CONFIGURED, SetVlan, reachable

from flo.testing.blocks import FakeEngine, run_block


async def test_a_device_gets_its_vlan() -> None:
    CONFIGURED[7] = 1
    wanted = await run_block(SetVlan, {"device": 7, "vlan": 20}, phase="acquire")
    ran = await run_block(SetVlan, {"device": 7, "vlan": 20})

    assert wanted.locks == ["device:7"]
    assert ran.data == {"previous": 1}
    assert CONFIGURED[7] == 20


async def test_a_device_that_does_not_answer_gets_its_vlan_back() -> None:
    CONFIGURED[7] = 20
    params = {"device": 7, "vlan": 13}

    saga = await FakeEngine().run((SetVlan, params), (reachable, params))

    assert saga.state == "failed_safe"
    assert saga.named("rollback") == ["network/set_vlan:1.2.0"]
    assert CONFIGURED[7] == 20
