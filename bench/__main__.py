"""`make bench`: run everything, print a table, write bench/results/latest.json."""

import argparse
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path

import uvloop

from bench import (
    blocks,
    growth,
    keys,
    labels,
    pending,
    pipelines,
    streams,
    throughput,
    wasm,
    workflows,
)
from bench.figure import Figure, write

PARTS = {
    "throughput": throughput.run,
    "pending": pending.run,
    "labels": labels.run,
    "streams": streams.run,
    "keys": keys.run,
    "workflows": workflows.run,
    "pipelines": pipelines.run,
    "blocks": blocks.run,
    "wasm": wasm.run,
    "growth": growth.run,
}
CONFIGURED = sysconfig.get_config_var("CONFIG_ARGS") or ""
RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    built = "" if "--enable-optimizations" in CONFIGURED else "not "
    print(
        f"Python {platform.python_version()} ({built}built with profile-guided optimization) "
        f"on {platform.machine()}, durability sync\n"
    )
    figures: list[Figure] = []
    for name, part in PARTS.items():
        if chosen.only in (None, name):
            print(f"{name} ...", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="flo-bench-") as folder:
                figures += uvloop.run(part(Path(folder)))
    for figure in figures:
        print(figure.line())
    write(figures, chosen.output)
    print(f"\nWritten to {chosen.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
