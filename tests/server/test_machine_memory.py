from flo.server import machine_memory
from flo.server.config import MEMORY_BUDGET_MIN
from flo.server.machine_memory import default_budget, memory_length, resident_length


def test_a_container_has_no_more_than_its_limit(tmp_path, monkeypatch):
    limit, none, missing = (tmp_path / name for name in ("limit", "none", "missing"))
    limit.write_text("2000000000\n")
    none.write_text("max\n")
    monkeypatch.setattr(machine_memory, "CGROUP_LIMITS", (none, limit, missing))

    assert memory_length() == 2_000_000_000
    assert default_budget() == 500_000_000


def test_without_a_limit_there_is_what_the_machine_has(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_memory, "CGROUP_LIMITS", (tmp_path / "missing",))

    assert memory_length() == machine_memory._machine_length() > 0


def test_a_small_machine_has_the_smallest_budget(tmp_path, monkeypatch):
    limit = tmp_path / "limit"
    limit.write_text("100000000")
    monkeypatch.setattr(machine_memory, "CGROUP_LIMITS", (limit,))

    assert default_budget() == MEMORY_BUDGET_MIN


def test_a_process_takes_some_memory():
    assert 1_000_000 < resident_length() < memory_length()
