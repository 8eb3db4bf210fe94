"""The installation lines, from the built wheel, each in a fresh environment.

    python tests/acceptance/installs.py [base server wasm kafka postgres otel crypto]

For each it says how large the environment has become (without pip), how long `import flo` and
`from flo import Flo` take, and tries what the line is for; the base says which line a server needs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "examples" / "wasm" / "built" / "rules_engine.wasm"
BASE_MIB_MAX = 25
TRIES = 5
ADDED = {
    "base": "click",
    "server": "litestar",
    "wasm": "wasmtime",
    "kafka": "confluent_kafka",
    "postgres": "psycopg",
    "otel": "opentelemetry.sdk.trace",
    "crypto": "cryptography.hazmat.primitives.ciphers.aead",
}
NOT_FLO = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
EMBEDDED = """
import sys
from flo import BlockingFlo, EmbeddedServer
from pathlib import Path
with EmbeddedServer() as server, BlockingFlo(server.address) as flo:
    if sys.argv[1:]:
        flo.actions.register("rules", wasm=Path(sys.argv[1]).read_bytes())
        print(flo.actions.invoke("rules", {"age": 25, "country": "US"}).result())
    else:
        flo.actions.register("send-email")
        print(flo.actions.invoke("send-email", {"to": "alice@example.com"}).run_id)
"""


class Installed(NamedTuple):
    line: str
    mib: float
    import_ms: float
    client_ms: float


class Environment:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)

    def install(self, wheel: Path, extra: str) -> str:
        named = "" if extra == "base" else f"[{extra}]"
        line = [str(self.folder / "bin" / "pip"), "install", "-qq", f"{wheel}{named}"]
        subprocess.run(line, check=True)
        return f"pip install 'flo-runtime{named}'"

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder, timeout=120, check=False
        )

    def python(self, code: str, *arguments: str) -> str:
        done = self.run("python", "-c", code, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def size_mib(self) -> float:
        (packages,) = self.folder.glob("lib/python*/site-packages")
        files = (
            one
            for one in packages.rglob("*")
            if one.is_file() and not one.relative_to(packages).parts[0].startswith(NOT_FLO)
        )
        return sum(one.stat().st_size for one in files) / 2**20

    def cpu_ms(self, statement: str) -> float:
        """The least of some tries: of the first, the bytecode is not cached."""
        code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
        return min(float(self.python(code)) for _ in range(TRIES)) * 1_000


def try_out(environment: Environment, extra: str) -> None:
    """What the line is for works, and what it is not for says which line to type."""
    assert environment.run("flo", "version").stdout.startswith("flo version ")
    environment.python(f"import {ADDED[extra]}")
    start = environment.run("flo", "server", "start", "--port", "-1", "--durability", "none")
    assert start.returncode == 2, start.stderr  # the flags are known without the server, too
    if extra in ("server", "wasm", "postgres"):
        assert environment.python(EMBEDDED) == "send-email-1"
    else:
        start = environment.run("flo", "server", "start")
        assert start.returncode == 3, start.stderr
        assert "pip install 'flo-runtime[server]' [extra_missing]" in start.stderr, start.stderr
        asked = environment.run("python", "-c", "from flo import EmbeddedServer")
        assert "ExtraMissing: EmbeddedServer needs " in asked.stderr, asked.stderr
    if extra == "wasm":
        assert "eligible" in environment.python(EMBEDDED, str(MODULE))
    if extra == "server":
        refused = environment.run("python", "-c", EMBEDDED, str(MODULE))
        assert "pip install 'flo-runtime[wasm]'" in refused.stderr, refused.stderr


def built_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        command = [str(ROOT / ".uv/bin/uv"), "build", "--quiet", "--wheel", "-o", str(folder), ROOT]
    subprocess.run([str(word) for word in command], check=True)
    (wheel,) = folder.glob("flo_runtime-*.whl")
    return wheel


def installed(wheel: Path, extra: str) -> Installed:
    with tempfile.TemporaryDirectory(prefix=f"flo-{extra}-") as folder:
        environment = Environment(Path(folder))
        line = environment.install(wheel, extra)
        try_out(environment, extra)
        seen = Installed(
            line,
            environment.size_mib(),
            environment.cpu_ms("import flo"),
            environment.cpu_ms("from flo import Flo"),
        )
    assert extra != "base" or seen.mib <= BASE_MIB_MAX, seen
    return seen


def main(extras: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = built_wheel(Path(folder))
        for extra in extras or ADDED:
            seen = installed(wheel, extra)
            print(json.dumps(seen._asdict()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
