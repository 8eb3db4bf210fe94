"""Runs the coordinator functions of tasks: asks the server for them, one after the other."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flo import BatchFailure, Flo, FloError, LeasedNode, NodeFenced, NodeStart, Unavailable
from flowkit.core.log import get_logger

ROLE = "coordinator_fn"
MERGE = "merge.generic"
BLOCK_MS = 20_000
RETRY_S = 0.5
RELEASE_S = 2.0
"""How long a coordinator that stops tries to give back the node that it is at."""
ERROR_LENGTH_MAX = 256

_log = get_logger("coordinator")


class FunctionRunner:
    """`adapters` may change while it runs."""

    def __init__(
        self, flo: Flo, coordinator_id: str, adapters: Mapping[str, Any], lease_ms: int
    ) -> None:
        self._flo = flo
        self._id = coordinator_id
        self._adapters = adapters
        self._lease_ms = lease_ms

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                nodes = await self._flo.workers.await_nodes(
                    self._id, [ROLE], lease_ms=self._lease_ms, block_ms=BLOCK_MS
                )
                for node in nodes:
                    await self._perform(node)
            except NodeFenced:
                continue
            except Unavailable as error:
                _log.debug("coord.scheduler.retry", event="coord.scheduler.retry", error=str(error))
                await asyncio.sleep(RETRY_S)
            except Exception:
                _log.exception("coord.scheduler.crash", event="coord.scheduler.crash")
                await asyncio.sleep(RETRY_S)

    async def _perform(self, node: LeasedNode) -> None:
        keeping = asyncio.create_task(self._keep(node))
        start = node.start
        name = start.function or "noop"
        try:
            returned = await call_function(
                self._adapters, start.id, start.node, name, start.arguments
            )
        except asyncio.CancelledError:
            with suppress(FloError, NodeFenced, TimeoutError):
                await asyncio.wait_for(node.release("shutdown"), RELEASE_S)
            raise
        except Exception as error:
            _log.exception(
                "coord.fn.failed", event="coord.fn.failed", task_id=start.id, node_id=start.node
            )
            reason = (str(error) or type(error).__name__)[:ERROR_LENGTH_MAX]
            await node.fail(BatchFailure(reason_code=reason, error=repr(error)[:4_000]))
        else:
            await node.complete(_own_meta(start, returned), None)
            _log.debug("coord.fn.done", event="coord.fn.done", task_id=start.id, node_id=start.node)
        finally:
            keeping.cancel()

    async def _keep(self, node: LeasedNode) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3_000)
            await node.heartbeat()


def _own_meta(start: NodeStart, returned: Any) -> dict[str, Any]:
    """What a merge has said of the node itself stays."""
    target = start.arguments.get("target")
    if start.function != MERGE or not isinstance(target, dict) or not isinstance(returned, dict):
        return {}
    is_own = target.get("node_id", start.node) == start.node
    meta = returned.get("meta") if is_own else None
    return meta if isinstance(meta, dict) else {}


async def call_function(
    adapters: Mapping[str, Any], task_id: str, node_id: str, name: str, arguments: Mapping[str, Any]
) -> Any:
    """Call a function with its arguments; a target without a node is the node itself."""
    function = adapters.get(name)
    if function is None:
        raise LookupError(f"there is no coordinator function {name!r}")
    given = dict(arguments)
    if isinstance(given.get("target"), dict):
        given["target"] = {"node_id": node_id, **given["target"]}
    return await function(task_id, **given)
