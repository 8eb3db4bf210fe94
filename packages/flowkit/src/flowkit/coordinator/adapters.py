"""Coordinator functions: variables, merge, metrics; each call is one change on the server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from flo import Invalid
from flo.model.pipelines.pipelines import CallPipelineFunction
from flowkit.coordinator.paths import (
    LIMITS,
    PREFIX,
    AdapterError,
    Leaves,
    check_leaves,
    check_number,
    check_path,
    check_segment,
    dict_paths,
    merge_leaves,
    set_leaves,
)
from flowkit.coordinator.sensitive import SensitiveDetectorProto, detector_of
from flowkit.core.log import get_logger
from flowkit.core.time import Clock, SystemClock
from flowkit.db.documents import plain
from flowkit.db.handle import FlowDb, opened

__all__ = [
    "AdapterError",
    "CoordinatorAdapters",
    "SensitiveDetectorProto",
    "default_adapters",
]

CoordinatorFunction = Callable[..., Awaitable[Any]]

_log = get_logger("coordinator.adapters")


class CoordinatorAdapters:
    def __init__(
        self, *, db: FlowDb | str | None, clock: Clock | None = None, detector: Any = None
    ) -> None:
        self.db = opened(db)
        self.clock = clock or SystemClock()
        self.detector = detector_of(detector)
        self._limits = dict(LIMITS)

    async def vars_set(
        self,
        task_id: str,
        *,
        kv: Mapping[str, Any] | None = None,
        block_sensitive: bool | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        """Write all paths in one step."""
        given, blocks = _given(kv, values, block_sensitive)
        leaves = set_leaves(given)
        return await self._write("vars.set", "coord.vars.set", task_id, leaves, given, blocks)

    async def vars_merge(
        self,
        task_id: str,
        *,
        data: Mapping[str, Any] | None = None,
        kv: Mapping[str, Any] | None = None,
        block_sensitive: bool | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        """Merge deeply: leaves overwrite, the rest stays."""
        given, blocks = _given(data if data is not None else kv, values, block_sensitive)
        leaves = merge_leaves(given)
        event = "coord.vars.merge"
        if len(leaves) > 1 and not await self._vars(task_id):
            event = "coord.vars.set"
        return await self._write("vars.merge", event, task_id, leaves, given, blocks)

    async def vars_incr(self, task_id: str, *, key: str, by: float = 1) -> dict[str, Any]:
        """Add to a number; one that is missing is made."""
        check_number(by)
        if not isinstance(key, str):
            raise AdapterError(f"expected `key` as text, got {key!r}")
        for segment in key.split("."):
            check_segment(segment)
        await self._call(task_id, "vars.incr", {"key": key, "by": by})
        self._log("coord.vars.incr", task_id, key=PREFIX + key, by=by)
        return {"ok": True, "key": key, "by": by}

    async def vars_unset(
        self, task_id: str, *paths: str, keys: list[str] | tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Remove paths, and the empty dicts that are left."""
        if isinstance(keys, str | bytes):
            raise AdapterError("expected `keys` as a list of paths, got a single text")
        wanted = list(dict.fromkeys([*paths, *(keys or ())]))
        if len(wanted) > self._limits["max_paths_per_op"]:
            raise AdapterError(f"expected at most {self._limits['max_paths_per_op']} paths")
        for path in wanted:
            check_path(path, self._limits)
        if not wanted:
            return {"ok": True, "touched": 0}
        before = dict_paths(await self._vars(task_id))
        await self._call(task_id, "vars.unset", {"keys": wanted})
        shown = sorted(PREFIX + path for path in wanted)
        self._log("coord.vars.unset", task_id, keys=shown, n=len(shown), sensitive_hits=0)
        pruned = before - dict_paths(await self._vars(task_id)) - {*wanted}
        if pruned:
            keys = sorted(PREFIX + path for path in pruned)
            self._log("coord.vars.unset.prune", task_id, keys=keys, n=len(keys), sensitive_hits=0)
        return {"ok": True, "touched": len(wanted)}

    async def merge_generic(
        self,
        task_id: str,
        *,
        from_nodes: list[str] | None = None,
        target: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Write a complete artifact that says what the sources have made."""
        if not isinstance(target, Mapping) or not target:
            raise AdapterError("expected `target` as an object with a node_id")
        arguments = {"from_nodes": list(from_nodes or ()), "target": dict(target)}
        return await self._call(task_id, "merge.generic", arguments)

    async def metrics_aggregate(
        self, task_id: str, *, node_id: str, mode: str = "sum", **_: Any
    ) -> dict[str, Any]:
        """Sum, or average, the metrics of a node into its stats."""
        return await self._call(task_id, "metrics.aggregate", {"node_id": node_id, "mode": mode})

    async def noop(self, task_id: str, **_: Any) -> dict[str, Any]:
        return {"ok": True}

    async def _write(
        self,
        function: str,
        event: str,
        task_id: str,
        leaves: Leaves,
        given: Mapping[str, Any],
        blocks: bool,
    ) -> dict[str, Any]:
        check_leaves(leaves, self._limits)
        if not leaves:
            return {"ok": True, "touched": 0}
        hits = sum(
            bool(self.detector.is_sensitive(PREFIX + path, value)) for path, value in leaves.items()
        )
        if hits and blocks:
            raise AdapterError(f"{hits} of the values look like secrets: they are not written")
        name = "data" if function == "vars.merge" else "kv"
        await self._call(task_id, function, {name: plain(dict(given)), "block_sensitive": False})
        keys = sorted(PREFIX + path for path in leaves)
        self._log(event, task_id, keys=keys, n=len(keys), sensitive_hits=hits)
        return {"ok": True, "touched": len(keys)}

    async def _call(self, task_id: str, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
        message = CallPipelineFunction(id=task_id, function=function, arguments=arguments)
        try:
            return (await self.db.call(message)).result
        except Invalid as refusal:
            raise AdapterError(refusal.message) from refusal

    async def _vars(self, task_id: str) -> dict[str, Any]:
        task = await self.db.tasks.find_one({"id": task_id}) or {}
        found: dict[str, Any] = (task.get("coordinator") or {}).get("vars") or {}
        return found

    def _log(self, event: str, task_id: str, **fields: Any) -> None:
        _log.info(event, event=event, task_id=task_id, **fields)


def _given(
    values: Mapping[str, Any] | None, more: dict[str, Any], block_sensitive: bool | None
) -> tuple[dict[str, Any], bool]:
    """The values, however they were given, and whether secrets are refused."""
    if values is not None and not isinstance(values, Mapping):
        raise AdapterError(f"expected the values as an object, got {type(values).__name__}")
    given = {**(values or {}), **more}
    inside = given.pop("block_sensitive", None)
    return given, bool(inside if block_sensitive is None else block_sensitive)


def default_adapters(
    *, db: FlowDb | str | None, clock: Clock | None = None, detector: Any = None
) -> dict[str, CoordinatorFunction]:
    """The functions that every coordinator has, by name."""
    adapters = CoordinatorAdapters(db=db, clock=clock, detector=detector)
    return {
        "vars.set": adapters.vars_set,
        "vars.merge": adapters.vars_merge,
        "vars.incr": adapters.vars_incr,
        "vars.unset": adapters.vars_unset,
        "merge.generic": adapters.merge_generic,
        "metrics.aggregate": adapters.metrics_aggregate,
        "noop": adapters.noop,
    }
