"""Schemathesis against a real server: the API answers as its OpenAPI document says, and never 5xx.

    python tests/acceptance/api_conformance.py --examples 100

Schemathesis is in the dependency group `proofs`; `make proofs` installs it. Every call says how
long it may wait, since the defaults are made for workers.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from flo.testing.process import ServerProcess

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
]
WAITS = {"block_ms", "wait_ms"}
SHORT_WAIT = {"type": "integer", "minimum": 0, "maximum": 20}


def with_short_waits(node: Any) -> Any:
    """The document, with every wait required and short."""
    if isinstance(node, list):
        return [with_short_waits(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("in") == "query" and node.get("name") in WAITS:
        return {**node, "required": True, "schema": SHORT_WAIT}
    changed = {name: with_short_waits(value) for name, value in node.items()}
    properties = node.get("properties")
    if isinstance(properties, dict) and (waits := WAITS & properties.keys()):
        changed["properties"] |= dict.fromkeys(waits, SHORT_WAIT)
        changed["required"] = sorted({*node.get("required", ()), *waits})
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=100, help="cases for each operation")
    examples = parser.parse_args().examples
    with tempfile.TemporaryDirectory() as name, ServerProcess(Path(name) / "data") as server:
        document = httpx.get(server.http_url + "/openapi.json").raise_for_status().json()
        path = Path(name) / "openapi.json"
        path.write_text(json.dumps(with_short_waits(document)))
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", str(path)]
        command += ["--url", server.http_url, "--max-examples", str(examples)]
        command += ["--checks", ",".join(CHECKS), "--max-response-time", "1"]
        command += ["--suppress-health-check", "all", "--warnings", "off"]
        command += ["--phases", "fuzzing,stateful"]  # "coverage" leaves out the required waits
        ended = subprocess.run(command, cwd=name, check=False)
        logged = [line for line in server.log_lines if "Traceback" in line or '"error"' in line]
    assert not logged, logged[:5]
    raise SystemExit(ended.returncode)


if __name__ == "__main__":
    main()
