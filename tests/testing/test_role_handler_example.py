"""The tests of the guide of role handlers pass."""

import importlib.util
from pathlib import Path

FILE = Path(__file__).parents[2] / "examples" / "test_role_handlers.py"
_spec = importlib.util.spec_from_file_location("role_handler_example", FILE)
_example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_example)

TESTS = {name: value for name, value in vars(_example).items() if name.startswith("test_")}
assert len(TESTS) == 3
globals().update(TESTS)
