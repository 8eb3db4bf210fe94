"""The example of the guide prints what the guide says."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_quick_start_of_the_guide():
    paths = [str(ROOT / "src"), str(ROOT / "packages" / "flowkit" / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    env.pop("FLO_ENDPOINT", None)

    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "flowkit_quick_start.py"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    guide = (ROOT / "docs" / "guide" / "flowkit.md").read_text()
    assert f"```\n{done.stdout}```" in guide
    assert done.stderr == ""
