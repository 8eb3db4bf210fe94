"""Two blocks for devices of a network; `flo worker blocks --dir examples/blocks` runs them."""

from flo import AcquireResult, Block, BlockContext, BlockFailed, Params, Partial, Result, block

CONFIGURED: dict[int, int] = {}
"""Stands for the devices themselves: the VLAN of each."""


class VlanParams(Params):
    device: int
    vlan: int


class VlanResult(Result):
    previous: int


@block(package="network", version="1.2.0", type="configure", idempotent=True)
class SetVlan(Block[VlanParams, VlanResult]):
    """Set the VLAN of a device."""

    async def acquire(self, params: Partial[VlanParams]) -> AcquireResult:
        return AcquireResult([f"device:{params.device}"])

    async def run(self, params: VlanParams, ctx: BlockContext) -> VlanResult:
        previous = CONFIGURED.get(params.device, 1)
        CONFIGURED[params.device] = params.vlan
        ctx.log.info("device %d: VLAN %d -> %d", params.device, previous, params.vlan)
        return VlanResult(previous=previous)

    async def rollback(
        self, params: VlanParams, ctx: BlockContext, result: VlanResult | None
    ) -> None:
        previous = result.previous if result is not None else 1
        CONFIGURED[params.device] = previous
        ctx.log.info("device %d: VLAN %d again", params.device, previous)


@block(package="network", version="1.0.0", type="check", pure=True)
async def reachable(params: VlanParams, ctx: BlockContext) -> None:
    """Check that the device still answers."""
    if params.vlan == 13:
        raise BlockFailed(f"device {params.device} does not answer", code="unreachable")
