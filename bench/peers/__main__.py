"""Runs peers in turn, and prints what each has done beside the others.

    python -m bench.peers flo,taskiq,huey,restate,celery W1,W3 [--count N] [--repeat 3]

Peers are run one after the other in every round, because a machine changes from minute to minute:
read the ratios of one run, never a number alone. `sh bench/peers/setup.sh` fetches the peers.
"""

import argparse
import json
import statistics
import sys
from typing import Any

from bench.peers.peers import PEERS
from bench.peers.servers import HOME
from bench.peers.workloads import WORKLOADS, Figures, once

SHOWN = {
    "W1": ("tasks_per_s", True),
    "W2": ("p50_ms", False),
    "W3": ("wf_per_s", True),
    "W3L": ("p50_ms", False),
    "W4W": ("last_progress_s", False),
}
"""The figure of a workload that is compared, and whether more of it is better."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("peers", nargs="?", default="flo,taskiq,huey,restate,celery")
    parser.add_argument("workloads", nargs="?", default=",".join(WORKLOADS))
    parser.add_argument("--count", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--list", action="store_true", help="name the peers, and what is there")
    chosen = parser.parse_args()
    if chosen.list:
        _list()
        return
    names = chosen.peers.split(",")
    for workload in chosen.workloads.split(","):
        _, usual = WORKLOADS[workload]
        _compare(names, workload, chosen.count or usual, chosen.repeat)


def _list() -> None:
    for peer in PEERS.values():
        is_there = (HOME / "venv" / peer.venv).exists()
        print(f"{peer.name:<14} {'ready' if is_there else 'not set up':<12} {peer.durability}")


def _compare(names: list[str], workload: str, count: int, rounds: int) -> None:
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            try:
                runs[name].append(once(PEERS[name], workload, count))
            except Exception as error:
                print(f"{name} {workload}: {error}", file=sys.stderr)
    shown, more_is_better = SHOWN[workload]
    medians = {name: _median(figures, shown) for name, figures in runs.items()}
    others = [value for name, value in medians.items() if value and not name.startswith("flo")]
    best = (max if more_is_better else min)(others, default=None)
    print(f"\n{workload}, {count}, {shown}; beside the best of the others:")
    for name, value in medians.items():
        ratio = f"{value / best:6.2f} ×" if value is not None and best else ""
        print(f"  {name:<14} {'failed' if value is None else f'{value:,.1f}':>12} {ratio}")
    print(json.dumps({"workload": workload, "count": count, "runs": runs}), flush=True)


def _median(figures: list[Figures], name: str) -> float | None:
    values: list[Any] = [one[name] for one in figures if one.get(name) is not None]
    return statistics.median(values) if values else None


if __name__ == "__main__":
    main()
