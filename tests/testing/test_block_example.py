"""The tests of the guide of function blocks pass."""

import importlib.util
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
_spec = importlib.util.spec_from_file_location("block_example", EXAMPLES / "test_set_vlan.py")
_example = importlib.util.module_from_spec(_spec)
sys.path.insert(0, str(EXAMPLES))
try:
    _spec.loader.exec_module(_example)
finally:
    sys.path.remove(str(EXAMPLES))

TESTS = {name: value for name, value in vars(_example).items() if name.startswith("test_")}
assert len(TESTS) == 2
globals().update(TESTS)
