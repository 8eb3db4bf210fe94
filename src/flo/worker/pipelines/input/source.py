"""The input of one run: chosen, checked, and opened."""

import inspect
from collections.abc import AsyncIterator, Mapping
from typing import Any

from flo.client.handles.leased_node import LeasedNode
from flo.core.stable_hash import stable_hash
from flo.worker.pipelines.batches import Batch
from flo.worker.pipelines.cancel import CancelFlag
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.handler import RoleHandler
from flo.worker.pipelines.input.adapters import (
    BAD_INPUT_ARGS,
    BadInput,
    InputAdapter,
    InputRoute,
    PullDefaults,
    choose_route,
    plain_args,
    pull_args,
)
from flo.worker.pipelines.input.pulled import PulledInput
from flo.worker.pipelines.input.rechunk import ClaimedBatch, ClaimedBatches


class InputSource:
    """`adapters` has the known ones: those of the user, and None for those that the server is."""

    def __init__(
        self,
        node: LeasedNode,
        handler: RoleHandler,
        adapters: Mapping[str, InputAdapter | None],
        defaults: PullDefaults,
        cancel_flag: CancelFlag,
        log: EventLog,
    ) -> None:
        self._node = node
        self._handler = handler
        self._adapters = adapters
        self._defaults = defaults
        self._cancel_flag = cancel_flag
        self._log = log
        self._pulled: PulledInput | None = None

    def open(self, loaded: Any) -> ClaimedBatches:
        """The batches; BadInput if the graph asks for an input that cannot be."""
        start, log = self._node.start, self._log
        route = choose_route(start.input_inline, loaded, self._adapters, log)
        if route is None:
            log.debug("worker.handler.iter_batches_fallback")
            return _named(self._handler.iter_batches(loaded))
        try:
            batches = self._adapted(route)
        except BadInput as bad:
            self._log_refused(route, bad)
            raise
        log.debug("worker.adapter.validation", adapter=route.adapter, validation_status="ok")
        return batches

    def recorded(self, claimed: ClaimedBatch) -> None:
        """The result of a batch is recorded."""
        if self._pulled is not None:
            self._pulled.recorded(claimed)

    async def all_finished(self) -> None:
        if self._pulled is not None:
            await self._pulled.all_finished()

    def _adapted(self, route: InputRoute) -> ClaimedBatches:
        own = self._adapters[route.adapter]
        if own is not None:
            return self._from_own(own, route)
        args = pull_args(route, self._defaults)
        self._log_selected(route, list(args.from_nodes), dict(plain_args(route.args)))
        self._pulled = PulledInput(self._node, args, self._log)
        return self._pulled.batches()

    def _from_own(self, adapter: InputAdapter, route: InputRoute) -> ClaimedBatches:
        args = dict(plain_args(route.args))
        if "from_node" in args:
            one = args.pop("from_node")
            args.setdefault("from_nodes", [one])
        start = self._node.start
        given = {
            "task_id": start.id,
            "consumer_node": start.node,
            "cancel_flag": self._cancel_flag,
            **args,
        }
        try:
            inspect.signature(adapter).bind(**given)
        except TypeError as error:
            raise BadInput(BAD_INPUT_ARGS, f"{route.adapter}: {error}") from error
        self._log_selected(route, args.get("from_nodes", []), args)
        return _named(adapter(**given))

    def _log_refused(self, route: InputRoute, bad: BadInput) -> None:
        self._log.error(
            "worker.adapter.validation_failed",
            adapter=route.adapter,
            io_source=route.source,
            reason=str(bad),
        )

    def _log_selected(self, route: InputRoute, from_nodes: Any, kwargs: dict[str, Any]) -> None:
        self._log.debug(
            "worker.adapter.selected",
            adapter=route.adapter,
            from_nodes=from_nodes,
            adapter_kwargs=kwargs,
            io_source=route.source,
        )


async def _named(batches: AsyncIterator[Batch]) -> ClaimedBatches:
    """Batches without a uid are known by their payload."""
    try:
        async for batch in batches:
            if not isinstance(batch, Batch):
                raise TypeError(f"expected a Batch from the input, got {type(batch).__name__}")
            if not batch.batch_uid:
                uid = stable_hash({"payload": batch.payload})
                batch = Batch(batch_uid=uid, payload=batch.payload)
            yield ClaimedBatch(batch)
    finally:
        close = getattr(batches, "aclose", None)
        if close is not None:
            await close()
