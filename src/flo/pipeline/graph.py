"""A graph of nodes, read from its document and indexed by what each node leads to.

    {"nodes": [{"node_id": "u", "type": "indexer", "depends_on": [], "fan_in": "all",
                "retry_policy": {…}, "io": {…}, "routing": {…}}, …],
     "edges": [["u", "v"]], "edges_ex": [{"from": "u", "to": "v", "mode": "async",
                                          "trigger": "on_batch"}]}

GraphProblems are collected: whether they refuse a graph is decided by whoever submits it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from flo.model.pipelines.names import COORDINATOR_ROLE
from flo.pipeline.fields import GraphFields, GraphProblems

RETRIES_DEFAULT = 2
BACKOFF_SEC_DEFAULT = 300.0
BACKOFF_SEC_MAX = 366 * 24 * 3_600
PERMANENT_DEFAULT = ("bad_input", "schema_mismatch")
NODES_MAX = 1_000
EDGES_MAX = 100_000

NODE_FIELDS = frozenset(
    {"node_id", "type", "depends_on", "fan_in", "retry_policy", "io", "routing"}
)
RUNTIME_FIELDS = frozenset(
    {
        "status", "attempt_epoch", "lease", "stats", "stats_cached_at", "started_at",
        "finished_at", "last_event_recv_ms", "next_retry_at_ms", "last_error", "streaming",
        "coordinator", "cancel_requested_at",
    }
)  # fmt: skip
"""GraphFields of FlowKit's documents that are not the author's; they are passed over."""


class RetryPolicy(NamedTuple):
    max: int = RETRIES_DEFAULT
    """How often a node is tried again after its first attempt."""
    backoff_ms: int = int(BACKOFF_SEC_DEFAULT * 1_000)
    permanent_on: tuple[str, ...] = PERMANENT_DEFAULT


class NodeSpec(NamedTuple):
    """A node as its graph states it."""

    node_id: str
    type: str
    depends_on: tuple[str, ...] = ()
    fan_in: str = "all"
    needed: int | None = None
    """How many of its dependencies must have finished; None can never be."""
    retry: RetryPolicy = RetryPolicy()
    first_batch: bool = False
    sources: tuple[str, ...] = ()
    """The nodes whose batches it reads, as far as the graph says so."""
    sources_needed: int = 1
    """Of so many sources there must be a batch before it starts on the first one."""
    async_parents: tuple[str, ...] = ()
    """A batch of one of these starts it at once."""
    on_success: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    wants_finished: tuple[str, ...] = ()
    """The nodes whose `on_success` names it."""
    wants_failed: tuple[str, ...] = ()
    """The nodes whose `on_failure` names it."""
    function: str | None = None
    arguments: Mapping[str, Any] = {}
    io: Mapping[str, Any] = {}
    backlog_max: int | None = None


class PipelineGraph(NamedTuple):
    nodes: dict[str, NodeSpec]
    dependents: dict[str, tuple[str, ...]]
    """Node → those whose readiness it has a part in."""
    readers: dict[str, tuple[str, ...]]
    """Node → those that read its batches."""
    problems: tuple[str, ...]
    """What is wrong with it; a lenient submission lets it pass."""

    def related_to(self, name: str) -> set[str]:
        """A node, all that it waits for, and all that waits for it."""
        awaited = {
            one: {other for other, others in self.dependents.items() if one in others}
            for one in self.nodes
        }
        return _reached(name, self.dependents) | _reached(name, awaited)


def _reached(name: str, ways: Mapping[str, Iterable[str]]) -> set[str]:
    """All that the ways from a node lead to, and itself."""
    found, ahead = {name}, [name]
    while ahead:
        new = set(ways.get(ahead.pop(), ())) - found
        found |= new
        ahead += new
    return found


def read_graph(document: Mapping[str, Any]) -> PipelineGraph:
    """The graph of a document. What cannot be read at all is Invalid; the rest is in `problems`."""
    problems = GraphProblems()
    root = GraphFields(document, "the graph", problems)
    listed = root.items("nodes", NODES_MAX)
    specs: dict[str, NodeSpec] = {}
    for place, one in enumerate(listed):
        spec = _node(GraphFields.of(one, f"node {place}", problems))
        if spec.node_id in specs:
            problems.fatal(f"node {spec.node_id!r} is there twice")
        specs[spec.node_id] = spec
    if not specs:
        problems.add("expected at least one node, got none")
    edges = _edges(root, problems)
    specs = _with_edges(specs, edges)
    _check_names(specs, edges, problems)
    _check_cycles(specs, problems)
    return PipelineGraph(specs, _dependents(specs), _readers(specs), tuple(problems.found))


def _node(fields: GraphFields) -> NodeSpec:
    node_id = fields.name("node_id")
    fields.called(f"node {node_id!r}")
    fields.only(NODE_FIELDS | RUNTIME_FIELDS)
    type_ = fields.name("type")
    depends_on = fields.names("depends_on")
    fan_in = fields.text("fan_in", "all").strip().lower()
    needed = _needed(fan_in, depends_on, fields)
    io = fields.inner("io")
    routing = fields.inner("routing")
    first_batch = _starts_on_first_batch(io)
    explicit = fan_in.startswith("count:") and needed is not None
    is_function = type_ == COORDINATOR_ROLE
    return NodeSpec(
        node_id=node_id,
        type=type_,
        depends_on=depends_on,
        fan_in=fan_in,
        needed=needed,
        retry=_retry(fields.inner("retry_policy")),
        first_batch=first_batch,
        sources=_sources(io) or (depends_on if first_batch else ()),
        sources_needed=max(needed or 1, 1) if first_batch and explicit else 1,
        on_success=routing.names("on_success"),
        on_failure=routing.names("on_failure"),
        function=io.text("fn", "noop") if is_function else None,
        arguments=dict(io.inner("fn_args").values) if is_function else {},
        io=dict(io.values),
        backlog_max=io.count("backlog_max"),
    )


def _needed(fan_in: str, depends_on: tuple[str, ...], fields: GraphFields) -> int | None:
    if fan_in == "all":
        return len(depends_on)
    if fan_in == "any":
        if not depends_on:
            fields.problem("fan_in is 'any', and depends_on is empty: it never becomes ready")
            return None
        return 1
    word, _, number = fan_in.partition(":")
    if word != "count":
        fields.problem(f"expected fan_in 'all', 'any' or 'count:N', got {fan_in[:80]!r}")
        return None
    try:
        wanted = int(number)
    except ValueError:
        fields.problem(f"expected a whole number in fan_in, got {fan_in[:80]!r}")
        return len(depends_on)
    if not 0 <= wanted <= len(depends_on):
        fields.problem(f"fan_in is {fan_in!r}, and there are {len(depends_on)} dependencies")
        return max(wanted, 0) if wanted <= len(depends_on) else None
    return wanted


def _retry(fields: GraphFields) -> RetryPolicy:
    backoff = fields.number("backoff_sec", BACKOFF_SEC_DEFAULT, BACKOFF_SEC_MAX)
    retries = fields.count("max", 0)
    permanent = fields.names("permanent_on") if fields.has("permanent_on") else PERMANENT_DEFAULT
    return RetryPolicy(
        RETRIES_DEFAULT if retries is None else retries, int(backoff * 1_000), permanent
    )


def _starts_on_first_batch(io: GraphFields) -> bool:
    when = io.text("start_when", "ready").strip().lower()
    if when not in ("ready", "first_batch"):
        io.problem(f"expected start_when 'ready' or 'first_batch', got {when[:80]!r}")
    return when == "first_batch"


def _sources(io: GraphFields) -> tuple[str, ...]:
    """The nodes that the input adapter of the graph reads; what is malformed the worker refuses."""
    inline = io.values.get("input_inline")
    args = inline.get("input_args") if isinstance(inline, Mapping) else None
    if not isinstance(args, Mapping):
        return ()
    named = args.get("from_nodes")
    if named is None:
        named = [args["from_node"]] if "from_node" in args else []
    if not isinstance(named, list | tuple):
        return ()
    return tuple(dict.fromkeys(one for one in named if isinstance(one, str)))


class _GraphEdge(NamedTuple):
    parent: str
    child: str
    is_async: bool


def _edges(root: GraphFields, problems: GraphProblems) -> list[_GraphEdge]:
    found = []
    for one in root.items("edges", EDGES_MAX):
        if isinstance(one, list | tuple) and len(one) == 2 and all(isinstance(e, str) for e in one):
            found.append(_GraphEdge(one[0], one[1], False))
        else:
            problems.add(f"expected an edge of two node ids, got {str(one)[:80]}")
    for one in root.items("edges_ex", EDGES_MAX):
        fields = GraphFields.of(one, "an edge of edges_ex", problems)
        is_async = fields.text("mode", "") == "async" and fields.text("trigger", "") == "on_batch"
        found.append(_GraphEdge(fields.text("from", ""), fields.text("to", ""), is_async))
    return found


def _with_edges(specs: dict[str, NodeSpec], edges: Iterable[_GraphEdge]) -> dict[str, NodeSpec]:
    parents: dict[str, dict[str, None]] = {}
    for edge in edges:
        if edge.is_async:
            parents.setdefault(edge.child, {})[edge.parent] = None
    finished, failed = _inverse(specs, "on_success"), _inverse(specs, "on_failure")
    return {
        name: spec._replace(
            async_parents=tuple(parents.get(name, ())),
            wants_finished=finished.get(name, ()),
            wants_failed=failed.get(name, ()),
        )
        for name, spec in specs.items()
    }


def _inverse(specs: Mapping[str, NodeSpec], field: str) -> dict[str, tuple[str, ...]]:
    """Who is named in this field → who names it."""
    found: dict[str, dict[str, None]] = {}
    for name, spec in specs.items():
        for other in getattr(spec, field):
            found.setdefault(other, {})[name] = None
    return {name: tuple(others) for name, others in found.items()}


def _dependents(specs: Mapping[str, NodeSpec]) -> dict[str, tuple[str, ...]]:
    fields = ("depends_on", "sources", "async_parents", "wants_finished", "wants_failed")
    found: dict[str, dict[str, None]] = {}
    for field in fields:
        for name, others in _inverse(specs, field).items():
            found.setdefault(name, {}).update(dict.fromkeys(others))
    return {name: tuple(others) for name, others in found.items()}


def _readers(specs: Mapping[str, NodeSpec]) -> dict[str, tuple[str, ...]]:
    return _inverse(specs, "sources")


def _check_names(
    specs: Mapping[str, NodeSpec], edges: Iterable[_GraphEdge], problems: GraphProblems
) -> None:
    """Whatever a graph refers to must be one of its nodes."""
    fields = ("depends_on", "sources", "on_success", "on_failure")
    for name, spec in specs.items():
        for field in fields:
            for other in getattr(spec, field):
                if other not in specs:
                    problems.add(f"node {name!r}: {field} names {other[:80]!r}, which is no node")
    for edge in edges:
        for end in (edge.parent, edge.child):
            if end not in specs:
                problems.add(f"an edge names {end[:80]!r}, which is no node")


def _check_cycles(specs: Mapping[str, NodeSpec], problems: GraphProblems) -> None:
    """A node that waits for itself, over others or at once, can never start."""
    done: set[str] = set()
    for start in specs:
        path: dict[str, None] = {}
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, is_left = stack.pop()
            if is_left:
                path.pop(name)
                done.add(name)
                continue
            if name in path:
                problems.add(f"node {name!r} waits for itself: {' → '.join([*path, name])[:200]}")
                return
            if name in done or name not in specs:
                continue
            path[name] = None
            stack.append((name, True))
            spec = specs[name]
            awaited = (*spec.depends_on, *spec.sources, *spec.wants_finished, *spec.wants_failed)
            stack.extend((other, False) for other in awaited)
