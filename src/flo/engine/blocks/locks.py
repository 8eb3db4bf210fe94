"""Locks: all that a run wants or none, in one step, and fair for each key.

    a request stands in the line of each of its keys, from the same moment on
    it is granted when in every line nobody stands before it, and nobody holds, what it cannot share

All lines have the order of the requests, so that no two runs wait for each other. Only a run that
is a part of another one can ask for more while that holds locks: it is refused where that would
close a circle.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace
from sortedcontainers import SortedDict

from flo.engine.blocks.records import LockRequest
from flo.model.blocks.names import LockMode
from flo.model.ids import RunId


class LockLine:
    """Who holds a key, and who waits for it, in order."""

    __slots__ = ("holders", "waiters")

    def __init__(self) -> None:
        self.holders: dict[RunId, LockMode] = {}
        self.waiters: dict[RunId, LockMode] = {}


class LockTable:
    """The locks of one namespace."""

    def __init__(self) -> None:
        self.requests: dict[RunId, LockRequest] = {}
        """Of all that wait and all that hold, in the order in which they were made."""
        self.lines: SortedDict[str, LockLine] = SortedDict()
        self.token = 0
        """That of the newest grant."""

    def request(self, request: LockRequest) -> None:
        assert request.run_id not in self.requests
        self.requests[request.run_id] = request
        for key, mode in request.keys.items():
            line = self.lines.setdefault(key, LockLine())
            (line.waiters if request.token is None else line.holders)[request.run_id] = mode

    def grant(self, run_id: RunId, token: int, at_ms: int) -> None:
        request = self.requests[run_id]
        assert request.token is None
        self.requests[run_id] = replace(request, token=token, since_ms=at_ms)
        self.token = token
        for key, mode in request.keys.items():
            line = self.lines[key]
            del line.waiters[run_id]
            line.holders[run_id] = mode

    def keep(self, run_id: RunId) -> None:
        request = self.requests.get(run_id)
        if request is not None:
            self.requests[run_id] = replace(request, kept=True)

    def release(self, run_id: RunId, keys: Iterable[str] = ()) -> None:
        """Of these keys, or of all: the run holds and wants them no more."""
        request = self.requests.pop(run_id, None)
        if request is None:
            return
        gone = frozenset(keys) or request.keys.keys()
        left = {key: mode for key, mode in request.keys.items() if key not in gone}
        for key in request.keys.keys() - left.keys():
            line = self.lines[key]
            line.holders.pop(run_id, None)
            line.waiters.pop(run_id, None)
            if not line.holders and not line.waiters:
                del self.lines[key]
        if left:
            self.requests[run_id] = replace(request, keys=left)

    def blockers(self, request: LockRequest) -> Iterator[tuple[str, RunId]]:
        """What keeps a request from being granted: a key, and who holds it or stands before."""
        for key, mode in request.keys.items():
            line = self.lines.get(key)
            if line is None:
                continue
            others = [one for one in line.holders if not self._is_kin(one, request)]
            for run_id in others:
                if not _are_shared(mode, line.holders[run_id]):
                    yield key, run_id
            if len(others) < len(line.holders):
                continue  # its own family holds it: whoever waits for that waits for this, too
            for run_id, theirs in line.waiters.items():
                if run_id == request.run_id:
                    break
                if not self._is_kin(run_id, request) and not _are_shared(mode, theirs):
                    yield key, run_id

    def _is_kin(self, run_id: RunId, request: LockRequest) -> bool:
        return self.requests[run_id].family == request.family

    def is_free(self, request: LockRequest) -> bool:
        return next(self.blockers(request), None) is None

    def next_granted(self, keys: Iterable[str]) -> RunId | None:
        """Who can be granted all that it wants, now that something of these keys was released."""
        lines = [self.lines[key] for key in keys if key in self.lines]
        waiting = {run_id for line in lines for run_id in line.waiters}
        ordered = [run_id for run_id in self.requests if run_id in waiting]
        return next((one for one in ordered if self.is_free(self.requests[one])), None)

    def closes_circle(self, request: LockRequest) -> bool:
        """Whether others would wait for its family while it waits for them."""
        if not any(one.family == request.family for one in self.requests.values()):
            return False  # who holds nothing keeps nobody waiting
        seen: set[RunId] = set()
        ahead = [self._families_before(request)]
        while ahead:
            for family in ahead.pop():
                if family == request.family:
                    return True
                if family not in seen:
                    seen.add(family)
                    ahead += [
                        self._families_before(one)
                        for one in self.requests.values()
                        if one.token is None and one.family == family
                    ]
        return False

    def _families_before(self, request: LockRequest) -> set[RunId]:
        return {self.requests[run_id].family for _, run_id in self.blockers(request)}


def merged_modes(
    first: Mapping[str, LockMode], second: Mapping[str, LockMode]
) -> dict[str, LockMode]:
    """What is wanted of either, in order: exclusive is the stronger one."""
    both = dict(first)
    for key, mode in second.items():
        if both.get(key) is not LockMode.EXCLUSIVE:
            both[key] = mode
    return dict(sorted(both.items()))


def _are_shared(one: LockMode, other: LockMode) -> bool:
    return one is LockMode.SHARED and other is LockMode.SHARED
