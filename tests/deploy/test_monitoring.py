"""The dashboard and the alerts ask for metrics that a server has, by labels that these have."""

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.server.config import ServerConfig
from flo.server.counts import Counts
from flo.server.metrics import Metrics
from flo.server.upkeep import Upkeep
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock

FOLDER = Path(__file__).parents[2] / "deploy"
METRIC = re.compile(r"\b(flo_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!=|!~|=)")
BY = re.compile(r"by \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "le", "job"}


async def metrics_of_a_server():
    """Every metric by name, with its labels."""
    clock, log, metrics = ManualClock(), MemoryLog(), Metrics()
    shard = Shard(State(), log, clock)
    Counts(shard, log, Upkeep(shard, log, None, None, clock, ServerConfig())).show_in(metrics)
    known = {}
    for collector in metrics.registry._collector_to_names:
        for family in collector.collect():
            labels = set(getattr(collector, "_labels", ()) or getattr(collector, "_labelnames", ()))
            labels |= set(getattr(family, "_labelnames", ()))
            for suffix in ("", "_total", "_bucket", "_sum", "_count"):
                known[family.name + suffix] = labels
    return known


def queries_of_the_dashboard():
    dashboard = json.loads((FOLDER / "grafana/flo.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def queries_of_the_alerts():
    groups = yaml.safe_load((FOLDER / "prometheus/flo.rules.yml").read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def unknown_in(query, known):
    """The metrics and labels of a query that no server has."""
    wrong, allowed = [], set(OF_PROMETHEUS)
    for name, selected in METRIC.findall(query):
        labels = set(LABEL.findall(re.sub(r'"[^"]*"', '""', selected)))
        if name not in known:
            wrong.append(name)
        else:
            allowed |= known[name]
            wrong += sorted(labels - known[name] - OF_PROMETHEUS)
    for grouped in BY.findall(query):
        wrong += sorted({one.strip() for one in grouped.split(",")} - allowed)
    return wrong


@pytest.mark.parametrize("query", [*queries_of_the_dashboard(), *queries_of_the_alerts()])
async def test_every_query_is_about_what_a_server_tells(query):
    assert unknown_in(query, await metrics_of_a_server()) == []
    assert query.count("(") == query.count(")")


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("rate(flo_runs_vanished_total[5m])", ["flo_runs_vanished_total"]),
        ('flo_runs{flavour="sweet"}', ["flavour"]),
        ("sum by (colour) (flo_runs)", ["colour"]),
    ],
)
async def test_a_query_about_something_else_is_found(query, wrong):
    """The control."""
    assert unknown_in(query, await metrics_of_a_server()) == wrong


def test_the_dashboard_is_the_one_that_is_declared():
    declared = runpy.run_path(str(FOLDER / "grafana/generate.py"))

    assert (FOLDER / "grafana/flo.json").read_text() == declared["text"]()


def test_every_alert_says_what_to_do():
    groups = yaml.safe_load((FOLDER / "prometheus/flo.rules.yml").read_text())["groups"]
    for rule in groups[0]["rules"]:
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in ("warning", "critical")
