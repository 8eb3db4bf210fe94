"""Writes the Grafana dashboard: `python deploy/grafana/generate.py`.

Panels are declared here, one line each; the JSON beside this file is what Grafana imports.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).with_name("flo.json")
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
COMMITS = "sum by (le) (rate(flo_commit_seconds_bucket[$__rate_interval]))"
SELECTED = 'namespace=~"$namespace"'


class Panel(NamedTuple):
    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """What is shown, and what it is called."""


def quantile(share: float, metric: str, by: str) -> str:
    rate = f"sum by ({by}, le) (rate({metric}_bucket{{{SELECTED}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {rate})"


def rate(metric: str, by: str, where: str = SELECTED) -> str:
    return f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))"


PANELS = {
    "Overview": (
        Panel("Runs per second", "ops", (
            (rate("flo_runs_queued_total", "namespace"), "queued {{namespace}}"),
            (rate("flo_runs_ended_total", "namespace"), "ended {{namespace}}"),
        )),
        Panel("Live runs", "short", (
            (f'sum by (status) (flo_runs{{{SELECTED},status=~"pending|running"}})', "{{status}}"),
        )),
        Panel("Workers, live workflow runs", "short", (
            ("flo_workers", "workers"),
            ("flo_workflow_runs_live", "workflow runs"),
        )),
    ),
    "Actions": (
        Panel("Queue wait, 95 %", "s", (
            (quantile(0.95, "flo_run_queue_seconds", "action"), "{{action}}"),
        )),
        Panel("Execution, 95 %", "s", (
            (quantile(0.95, "flo_run_execution_seconds", "action"), "{{action}}"),
        )),
        Panel("Queue depth", "short", (
            (f'sum by (action) (flo_runs{{{SELECTED},status="pending"}})', "{{action}}"),
        )),
        Panel("Ended per second", "ops", (
            (rate("flo_runs_ended_total", "action, status"), "{{action}} {{status}}"),
        )),
        Panel("Tried again per second", "ops", (
            (rate("flo_runs_retried_total", "action"), "{{action}}"),
        )),
        Panel("Share that fails", "percentunit", (
            (
                rate("flo_runs_ended_total", "action", f'{SELECTED},status=~"failed|timed_out"')
                + " / "
                + rate("flo_runs_ended_total", "action"),
                "{{action}}",
            ),
        )),
    ),
    "Workflows": (
        Panel("Started per second", "ops", (
            (rate("flo_workflow_runs_started_total", "workflow, by"), "{{workflow}} by {{by}}"),
        )),
        Panel("Ended per second", "ops", (
            (rate("flo_workflow_runs_ended_total", "workflow, status"), "{{workflow}} {{status}}"),
        )),
        Panel("Duration, 95 %", "s", (
            (quantile(0.95, "flo_workflow_run_seconds", "workflow"), "{{workflow}}"),
        )),
        Panel("Steps per second", "ops", (
            (rate("flo_workflow_steps_ended_total", "workflow, outcome"), "{{outcome}}"),
        )),
        Panel("Schedules per hour", "short", (
            (
                "sum by (workflow, result) "
                f"(increase(flo_schedules_fired_total{{{SELECTED}}}[1h]))",
                "{{workflow}} {{result}}",
            ),
        )),
        Panel("Consumer groups", "short", (
            ("flo_group_lag", "behind"),
            ("flo_group_pending", "handed out"),
            ("flo_group_dead", "dead letters"),
        )),
    ),
    "Server": (
        Panel("Commit, 50 % and 99 %", "s", (
            (f"histogram_quantile(0.5, {COMMITS})", "50 %"),
            (f"histogram_quantile(0.99, {COMMITS})", "99 %"),
        )),
        Panel("Events per second", "ops", (
            ("rate(flo_events_total[$__rate_interval])", "events"),
        )),
        Panel("Memory", "bytes", (
            ("flo_memory_used_bytes", "{{part}}"),
            ("flo_memory_budget_bytes", "budget"),
        )),
        Panel("Requests per second", "ops", (
            (rate("flo_rpc_requests_total", "operation", ""), "{{operation}}"),
            (rate("flo_http_requests_total", "route", ""), "HTTP {{route}}"),
        )),
        Panel("Refusals per second", "ops", (
            ("sum by (code) (rate(flo_refusals_total[$__rate_interval]))", "{{code}}"),
        )),
        Panel("Events since the last snapshot", "short", (
            ("flo_log_position - flo_snapshot_position", "events"),
        )),
    ),
}  # fmt: skip


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in PANELS.items():
        panels.append(_row(len(panels) + 1, title, y))
        y += 1
        for place, panel in enumerate(row):
            x, below = place % COLUMNS * WIDTH, place // COLUMNS * HEIGHT
            panels.append(_panel(len(panels) + 1, panel, x, y + below))
        y += -(-len(row) // COLUMNS) * HEIGHT
    return {
        "title": "Flo",
        "uid": "flo",
        "tags": ["flo"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), _namespace()]},
        "panels": panels,
    }


def _row(number: int, title: str, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": WIDTH * COLUMNS, "h": 1},
        "panels": [],
    }


def _panel(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + place), "expr": query, "legendFormat": legend}
        for place, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"}


def _namespace() -> dict[str, Any]:
    return {
        "name": "namespace",
        "type": "query",
        "label": "Namespace",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": "label_values(flo_runs, namespace)",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
