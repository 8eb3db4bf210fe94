"""Configuration, clocks, hashes and logs."""

import dataclasses
import json
import logging

import pytest

from flowkit import CoordinatorConfig, WorkerConfig
from flowkit.core import log as flowkit_log
from flowkit.core.log import JsonFormatter, get_logger, log_context, swallow, warn_once
from flowkit.core.time import ManualClock, SystemClock
from flowkit.core.utils import dumps, jitter_ms, loads, stable_hash


def test_defaults_of_the_coordinator():
    cfg = CoordinatorConfig()

    assert (cfg.kafka_bootstrap, cfg.topic_cmd("a"), cfg.topic_status("a")) == (
        "kafka:9092",
        "cmd.a.v1",
        "status.a.v1",
    )
    assert cfg.worker_types == ["indexer", "enricher", "grouper", "analyzer"]
    assert (cfg.hb_soft_ms, cfg.hb_hard_ms, cfg.lease_ttl_ms) == (300_000, 3_600_000, 45_000)
    assert (cfg.cancel_grace_ms, cfg.outbox_dispatch_tick_ms) == (30_000, 250)


def test_derived_values_follow_the_seconds():
    cfg = CoordinatorConfig(heartbeat_soft_sec=0.4, hb_soft_ms=7)

    assert cfg.hb_soft_ms == 400
    assert dataclasses.replace(cfg, heartbeat_soft_sec=1).hb_soft_ms == 1_000
    assert WorkerConfig(lease_ttl_sec=1.5).lease_ttl_ms == 1_500


def test_where_the_values_come_from(tmp_path, monkeypatch):
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"lease_ttl_sec": 7, "worker_types": ["f"], "topic_query": "q"}))
    monkeypatch.setenv("WORKER_TYPES", "a, b,,c ")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "k:1")

    loaded = CoordinatorConfig.load(file, overrides={"topic_query": "o"})
    worker = WorkerConfig.load(path=tmp_path / "missing.json", overrides={"roles": ["x"]})

    assert loaded.worker_types == ["a", "b", "c"]
    assert (loaded.kafka_bootstrap, loaded.lease_ttl_sec, loaded.topic_query) == ("k:1", 7, "o")
    assert (worker.kafka_bootstrap, worker.roles) == ("kafka:9092", ["x"])


@pytest.mark.parametrize("config", [CoordinatorConfig, WorkerConfig])
def test_an_unknown_setting_is_refused(config):
    with pytest.raises(TypeError):
        config.load(overrides={"colour": "red"})


async def test_a_manual_clock_moves_when_one_sleeps():
    clock = ManualClock(start_ms=1_000)

    await clock.sleep_ms(500)

    assert clock.now_ms() == 1_500
    assert clock.now_dt().timestamp() == 1.5
    assert SystemClock().now_ms() > 1_700_000_000_000


def test_hashes_and_json():
    assert stable_hash({"payload": {"a": 1}}) == "ec9f9a4e07957943339e7781b6dbdffb614d92f3"
    assert dumps({"b": "é"}) == '{"b":"é"}'.encode()
    assert loads(b'{"a":1}') == {"a": 1}
    assert 80 <= jitter_ms(100) <= 120


def test_fields_are_attributes_of_the_record(caplog):
    caplog.set_level("INFO")

    with log_context(task_id="t"):
        get_logger("coordinator").info("text", event="e", keys=["a"], extra={"n": 1, "name": "x"})

    (record,) = [one for one in caplog.records if getattr(one, "event", None) == "e"]
    assert (record.name, record.task_id, record.keys, record.n) == (
        "flowkit.coordinator",
        "t",
        ["a"],
        1,
    )


def test_a_warning_that_is_said_once(caplog):
    logger = get_logger("x")

    for _ in range(2):
        warn_once(logger, code="test_flowkit_core", msg="once")

    assert [one.getMessage() for one in caplog.records].count("once") == 1


def test_an_error_that_is_swallowed_is_logged(caplog):
    with swallow(logger=get_logger("x"), code="c", msg="gone", expected=True):
        raise ValueError("v")

    (record,) = [one for one in caplog.records if one.getMessage() == "gone"]
    assert (record.code, record.expected) == ("c", True)


def test_lines_as_json():
    record = logging.makeLogRecord({"msg": "m", "levelname": "INFO", "event": "e", "name": "l"})

    line = json.loads(JsonFormatter().format(record))

    assert (line["message"], line["event"], line["level"], line["logger"]) == (
        "m",
        "e",
        "INFO",
        "l",
    )
    assert line["ts"].endswith("Z")


def test_logs_of_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("FLOWKIT_LOG_STDOUT", "1")
    monkeypatch.setenv("FLOWKIT_LOG_LEVEL", "info")
    logger = logging.getLogger("flowkit")
    before = (list(logger.handlers), logger.level)
    try:
        flowkit_log.configure_from_env()
        get_logger("x").info("hello", event="e")
        get_logger("x").debug("not this")
    finally:
        logger.handlers[:], logger.level = before[0], before[1]
        logger.setLevel(before[1])

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["event"] == "e"
