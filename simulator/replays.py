"""Simulations until enough workflow runs of each kind have been replayed from their archive.

    python -m simulator.replays --each 1000

Servers are killed all the while. Every run that ends is replayed, and the first that comes out
otherwise ends it. Most of those who act direct workflows, many of which poll: so there are soon
enough of every kind.
"""

import argparse
import sys
from collections import Counter
from itertools import count

from simulator.actors.documents import MILL, POLLS
from simulator.audits.replays import KINDS
from simulator.simulation import Actors, Simulation, report_of

OPERATIONS = 6_000
POPULATION = Actors(
    clients=1, workers=4, producers=1, consumers=0, kv_clients=0, workflow_clients=5
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay simulated workflow runs of each kind.")
    parser.add_argument("--each", type=int, default=1_000, help="how many of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    options = parser.parse_args()
    replayed: Counter[str] = Counter()
    crashes = 0
    for seed in count(options.seed):
        documents = (*POLLS, MILL)
        simulation = Simulation(
            seed, options.operations, population=POPULATION, documents=documents
        )
        summary = simulation.run()
        replayed += summary.replayed
        crashes += summary.happened["server crashes"]
        if summary.broken is not None:
            print(report_of(summary, 1.0))
            sys.exit(1)
        if all(replayed[kind] >= options.each for kind in KINDS):
            break
    counts = ", ".join(f"{replayed[kind]} × {kind}" for kind in KINDS)
    print(f"replayed {counts}; {seed - options.seed + 1} seeds, {crashes} crashes of servers")


if __name__ == "__main__":
    main()
