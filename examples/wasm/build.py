"""`make wasm`: builds the modules of this folder with the commands of the guide.

What it makes is kept in built/, so that only who changes a source needs the compiler. sums.json
says there which source and which command each module was made of, and a test compares them.
"""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BUILT = HERE / "built"
SUMS = BUILT / "sums.json"
GUIDE = HERE.parents[1] / "docs" / "guide" / "wasm.md"
SOURCES = ("rules_engine.zig", "word_count.c")


def main() -> None:
    for source in SOURCES:
        (BUILT / source).with_suffix(".wasm").write_bytes(build(source))
    SUMS.write_text(json.dumps({one: sums(one) for one in SOURCES}, indent=2) + "\n", "utf-8")


def build(source: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / source, folder)
        subprocess.run([sys.executable, *command(source)[1:]], cwd=folder, check=True)
        return Path(folder, source).with_suffix(".wasm").read_bytes()


def command(source: str) -> list[str]:
    """The one that the guide has for this source."""
    lines = GUIDE.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    (found,) = (one for one in lines if one.startswith("python -") and source in one)
    return shlex.split(found)


def sums(source: str) -> dict[str, str]:
    """What a module was made of, and the module itself."""
    return {
        "source": _sum((HERE / source).read_bytes()),
        "command": _sum(shlex.join(command(source)).encode()),
        "module": _sum((BUILT / source).with_suffix(".wasm").read_bytes()),
    }


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
