"""Graphs as simulations draw them: fan-in, first batches, rechunking, functions, bad retries."""

import random
from typing import Any

ROLES = ("index", "enrich", "analyse")
BATCHES_MAX = 12
CHUNK = 2
"""How many items a part of a batch has where a node cuts batches up."""


def draw_graph(rng: random.Random) -> dict[str, Any]:
    """Two to six nodes; whatever is read is read by somebody who also knows its end."""
    nodes: list[dict[str, Any]] = []
    for number in range(rng.randint(2, 6)):
        name = f"n{number}"
        others = [one["node_id"] for one in nodes if one["type"] != "coordinator_fn"]
        if not others or rng.random() < 0.25:
            nodes.append(_source(rng, name))
        elif rng.random() < 0.2:
            nodes.append(_function(rng, name, others))
        else:
            nodes.append(_reader(rng, name, others))
    return {"nodes": nodes}


def _source(rng: random.Random, name: str) -> dict[str, Any]:
    return {
        "node_id": name,
        "type": rng.choice(ROLES),
        "retry_policy": _policy(rng),
        "io": {"input_inline": {"batches": rng.randint(0, BATCHES_MAX)}},
    }


def _reader(rng: random.Random, name: str, others: list[str]) -> dict[str, Any]:
    sources = rng.sample(others, rng.randint(1, min(2, len(others))))
    adapter = rng.choice(("pull.from_artifacts", "pull.from_artifacts.rechunk:size"))
    fan_in = rng.choice(("all", "any", f"count:{len(sources)}"))
    first_batch = rng.random() < 0.7
    return {
        "node_id": name,
        "type": rng.choice(ROLES),
        "depends_on": sources,
        "fan_in": fan_in if not first_batch else "all",
        "retry_policy": _policy(rng),
        "io": {
            "start_when": "first_batch" if first_batch else "ready",
            "input_inline": {
                "input_adapter": adapter,
                "input_args": {"from_nodes": sources, "size": CHUNK, "meta_list_key": "items"},
            },
        },
    }


def _function(rng: random.Random, name: str, others: list[str]) -> dict[str, Any]:
    about = rng.choice(others)
    functions: list[tuple[str, dict[str, Any]]] = [
        ("metrics.aggregate", {"node_id": about}),
        ("vars.incr", {"key": f"seen.{name}"}),
        ("merge.generic", {"from_nodes": [about], "target": {"note": "its own"}}),
    ]
    function, arguments = rng.choice(functions)
    return {
        "node_id": name,
        "type": "coordinator_fn",
        "depends_on": [about],
        "io": {"fn": function, "fn_args": arguments},
    }


def _policy(rng: random.Random) -> dict[str, Any]:
    return {"max": rng.randint(0, 4), "backoff_sec": rng.choice((0, 0.5, 3))}
