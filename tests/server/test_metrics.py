"""What the server counts."""

import pytest

from flo.engine.runs.events import RunReleased
from flo.server.metrics import Metrics, RunCount, StreamTotals

EVENT = RunReleased(namespace="default", run_id="send-1")


def lines_of(metrics):
    return metrics.exposition().decode().splitlines()


def test_a_commit_is_counted_with_its_events():
    metrics = Metrics()
    metrics.committed([EVENT] * 3, archived=1, seconds=0.002)
    metrics.committed([EVENT] * 2, archived=0, seconds=0.3)
    lines = lines_of(metrics)
    assert "flo_events_total 5.0" in lines
    assert "flo_archived_total 1.0" in lines
    assert 'flo_commit_seconds_bucket{le="0.0025"} 1.0' in lines
    assert "flo_commit_seconds_count 2.0" in lines


def test_connections_are_counted_while_they_are_open():
    metrics = Metrics()
    metrics.rpc_opened()
    metrics.rpc_opened()
    metrics.rpc_closed()
    metrics.http_opened()
    assert "flo_rpc_connections 1.0" in lines_of(metrics)
    assert "flo_http_connections 1.0" in lines_of(metrics)


def test_requests_and_refusals_are_counted_by_what_they_were():
    metrics = Metrics()
    metrics.rpc_request("invoke")
    metrics.rpc_request("invoke")
    metrics.refused("lease_lost")
    metrics.http_answered("GET", "/health", 200)
    lines = lines_of(metrics)
    assert 'flo_rpc_requests_total{operation="invoke"} 2.0' in lines
    assert 'flo_refusals_total{code="lease_lost"} 1.0' in lines
    assert 'flo_http_requests_total{method="GET",route="/health",status="200"} 1.0' in lines


def test_what_changes_by_itself_is_looked_at_when_it_is_shown():
    metrics = Metrics()
    pending = [RunCount("default", "ship", "pending", 7)]
    metrics.watch(
        pending_runs=lambda: len(pending),
        running_runs=lambda: 2,
        workers=lambda: 3,
        keys=lambda: 8,
        log_position=lambda: 40,
        snapshot_position=lambda: 30,
        runs_by_action=lambda: pending,
        stream_totals=lambda: StreamTotals(2, 30, 50, 9, 5, 4, len(pending)),
    )
    shown = 'flo_runs{action="ship",namespace="default",status="pending"} 7.0'
    assert {
        'flo_runs_live{status="pending"} 1.0',
        'flo_runs_live{status="running"} 2.0',
        "flo_workers 3.0",
        "flo_keys 8.0",
        "flo_streams 2.0",
        "flo_stream_records 30.0",
        "flo_stream_records_appended 50.0",
        "flo_group_lag 9.0",
        "flo_group_pending 5.0",
        "flo_group_waiting 4.0",
        "flo_group_dead 1.0",
        "flo_log_position 40.0",
        "flo_snapshot_position 30.0",
    } <= set(lines_of(metrics))
    assert shown in lines_of(metrics)
    pending.clear()
    assert 'flo_runs_live{status="pending"} 0.0' in lines_of(metrics)
    assert shown not in lines_of(metrics)
    assert "flo_group_dead 0.0" in lines_of(metrics)


def test_servers_in_one_process_count_for_themselves():
    first, second = Metrics(), Metrics()
    first.refused("lease_lost")
    assert not [line for line in lines_of(second) if "lease_lost" in line]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_odd_names_do_not_break_the_page(name):
    metrics = Metrics()
    metrics.refused(name)
    assert sum(line.startswith("flo_refusals_total{") for line in lines_of(metrics)) == 1
