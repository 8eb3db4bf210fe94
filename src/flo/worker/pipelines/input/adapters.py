"""Where the batches of a node come from: which input adapter, and are its arguments right.

    the graph names an adapter      that one; unknown: bad_input_adapter
    else the handler proposes one   that one, if it is known
    else                            handler.iter_batches

All of it is checked before the first batch; what is wrong is permanent.
"""

from collections.abc import AsyncIterator, Callable, Container, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from flo.worker.pipelines.batches import Batch
from flo.worker.pipelines.events import EventLog

PULL = "pull.from_artifacts"
RECHUNK = "pull.from_artifacts.rechunk:size"
POLL_MS_DEFAULT = 300
BACKOFF_MS_MAX_DEFAULT = 4_000

BAD_INPUT_ADAPTER = "bad_input_adapter"
BAD_INPUT_ARGS = "bad_input_args"

InputAdapter: TypeAlias = Callable[..., AsyncIterator[Batch]]
"""An adapter of the user: called with task_id, consumer_node, cancel_flag and its arguments."""


class BadInput(Exception):
    """The input of a node cannot be read, now or ever."""

    def __init__(self, reason_code: str, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code


class InputRoute(NamedTuple):
    adapter: str
    args: Any
    source: Literal["cmd", "handler"]
    """Who chose it: the graph, or the handler."""


class PullArgs(NamedTuple):
    """The checked arguments of the adapters that pull; `size` is None where nothing is cut."""

    from_nodes: tuple[str, ...]
    poll_ms: float
    backoff_max_ms: float
    eof_on_task_done: bool
    size: int | None = None
    meta_list_key: str | None = None


class PullDefaults(NamedTuple):
    poll_ms: float = POLL_MS_DEFAULT
    backoff_max_ms: float = BACKOFF_MS_MAX_DEFAULT
    strict: bool = False
    """Whether a rechunk must name its `meta_list_key`."""


def choose_route(
    input_inline: Mapping[str, Any] | None, loaded: Any, known: Container[str], log: EventLog
) -> InputRoute | None:
    """The route of the graph, else what `load_input` proposes, else None: iter_batches."""
    proposed = _proposed(loaded)
    adapter = (input_inline or {}).get("input_adapter")
    if adapter:
        if not isinstance(adapter, str) or adapter not in known:
            log.error("worker.adapter.unknown_from_cmd", adapter=adapter)
            raise BadInput(BAD_INPUT_ADAPTER, f"expected a known input adapter, got {adapter!r}")
        if proposed is not None and proposed.adapter != adapter:
            log.debug(
                "worker.adapter.handler_conflict_ignored",
                handler_adapter=proposed.adapter,
                cmd_adapter=adapter,
            )
        return InputRoute(adapter, (input_inline or {}).get("input_args"), "cmd")
    if proposed is not None and isinstance(proposed.adapter, str) and proposed.adapter in known:
        return proposed
    return None


def _proposed(loaded: Any) -> InputRoute | None:
    inline = loaded.get("input_inline") if isinstance(loaded, Mapping) else None
    if not isinstance(inline, Mapping) or not inline.get("input_adapter"):
        return None
    return InputRoute(inline["input_adapter"], inline.get("input_args"), "handler")


def pull_args(route: InputRoute, defaults: PullDefaults) -> PullArgs:
    """The arguments of `pull.from_artifacts` or its rechunk; BadInput says what is wrong."""
    args = dict(plain_args(route.args))
    from_nodes = _from_nodes(args)
    pull = PullArgs(
        from_nodes,
        _duration(args, "poll_ms", defaults.poll_ms),
        _duration(args, "backoff_max_ms", defaults.backoff_max_ms),
        _flag(args, "eof_on_task_done"),
    )
    if route.adapter == RECHUNK:
        pull = pull._replace(
            size=_size(args), meta_list_key=_meta_list_key(args, strict=defaults.strict)
        )
    if args:
        raise _bad(f"{route.adapter} has no argument {', '.join(map(repr, sorted(args, key=str)))}")
    return pull


def plain_args(args: Any) -> Mapping[str, Any]:
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        raise _bad(f"expected input_args as an object, got {args!r}")
    return args


def _from_nodes(args: dict[str, Any]) -> tuple[str, ...]:
    one = args.pop("from_node", None)
    many = args.pop("from_nodes", None)
    if many is None and one is not None:
        many = [one]
    if not isinstance(many, list | tuple) or not many:
        raise _bad(f"expected from_nodes as a list of node ids, got {many!r}")
    for name in many:
        if not isinstance(name, str) or not name:
            raise _bad(f"expected node ids in from_nodes, got {name!r}")
    return tuple(dict.fromkeys(many))


def _duration(args: dict[str, Any], name: str, default: float) -> float:
    value = args.pop(name, None)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise _bad(f"expected {name} as milliseconds, got {value!r}")
    return float(value)


def _flag(args: dict[str, Any], name: str) -> bool:
    value = args.pop(name, None)
    if value is None:
        return True
    if not isinstance(value, bool):
        raise _bad(f"expected {name} as true or false, got {value!r}")
    return value


def _size(args: dict[str, Any]) -> int:
    size = args.pop("size", None)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise _bad(f"expected size as a whole number above 0, got {size!r}")
    return size


def _meta_list_key(args: dict[str, Any], *, strict: bool) -> str | None:
    key = args.pop("meta_list_key", None)
    if key is not None and not isinstance(key, str):
        raise _bad(f"expected meta_list_key as text, got {key!r}")
    if strict and key is None:
        raise _bad("expected a meta_list_key, which strict input adapters require")
    return key


def _bad(message: str) -> BadInput:
    return BadInput(BAD_INPUT_ARGS, message)
