"""The files of a deployment say what the program knows: flags, settings, paths, metrics.

What is needed to build or render them is not everywhere; what can be checked without it is.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.test_monitoring import metrics_of_a_server, unknown_in
from flo.cli.app.main import flo
from flo.server.config import ServerConfig

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
CHART = FOLDER / "helm/flo"
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
UNITS = sorted((FOLDER / "systemd").iterdir())
SETTINGS = {f"FLO_SERVER_{name.upper()}" for name in ServerConfig.__struct_fields__}
ACTION = re.compile(r"\{\{-?.*?-?\}\}")
VALUE = re.compile(r"(?<![\w)$])\$?\.Values((?:\.\w+)+)")


def command_of(words):
    """The command that these words name, with its flags; what is no such command fails."""
    command, context = flo, flo.make_context("flo", [], resilient_parsing=True)
    for word in words:
        found = command.get_command(context, word) if hasattr(command, "get_command") else None
        if found is None:
            break
        command = found
    flags = {name for param in command.params for name in param.opts}
    unknown = [word for word in words if word.startswith("--") and word not in flags]
    assert not unknown, (words, unknown)
    return command.name


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_there_is(unit):
    started = re.findall(r"^ExecStart=/opt/flo/bin/flo (.*)$", unit.read_text(), re.MULTILINE)

    if unit.suffix == ".service":
        assert command_of(started[0].split()) in ("start", "backup", "run")
    else:
        assert (unit.with_suffix(".service")).exists()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_a_unit(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        return  # it is where servers are; here there is nobody to ask
    for one in UNITS:
        text = one.read_text().replace("/opt/flo/bin/flo", "/bin/true")
        (tmp_path / one.name).write_text(text)
    name = unit.name.replace("@.", "@orders.")
    (tmp_path / name).write_text((tmp_path / unit.name).read_text())

    done = verified(tmp_path / name)

    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_would_say_what_is_wrong(tmp_path):
    """The control."""
    if shutil.which("systemd-analyze") is None:
        return
    (tmp_path / "flo.service").write_text("[Service]\nExecStrat=/bin/true\n")

    assert "ExecStrat" in verified(tmp_path / "flo.service").stderr


def verified(path):
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True
    )


def test_the_image_has_what_it_copies_and_knows_its_settings():
    text = (FOLDER / "docker/Dockerfile").read_text()

    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split()), line
    assert set(re.findall(r"FLO_SERVER_\w+", text)) <= SETTINGS
    assert command_of(["server", "start"]) == "start"


def test_what_is_composed_is_there():
    path = FOLDER / "docker/compose.yaml"
    services = yaml.safe_load(path.read_text())["services"]

    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (path.parent / source).exists(), volume
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), "nothing is opened to the network unasked"
    assert (path.parent / services["flo"]["build"]["context"] / "pyproject.toml").exists()
    scraped = yaml.safe_load((FOLDER / "prometheus/prometheus.yml").read_text())
    assert scraped["scrape_configs"][0]["static_configs"][0]["targets"] == ["flo:9001"]
    assert all((FOLDER / "prometheus" / name).exists() for name in scraped["rule_files"])


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_is_yaml_around_its_actions(template):
    lines = [
        ACTION.sub("x", line)
        for line in template.read_text().splitlines()
        if not re.fullmatch(r"\s*\{\{-? (if|range|with|end).*\}\}", line)
    ]

    documents = [one for one in yaml.safe_load_all("\n".join(lines)) if one]

    assert documents
    assert all({"apiVersion", "kind", "metadata"} <= one.keys() for one in documents)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_value_of_a_template_has_a_default(template):
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in VALUE.findall(template.read_text()):
        found = values
        for name in path.strip(".").split("."):
            assert name in found, path
            found = found[name]


def test_every_block_of_a_template_is_closed():
    for template in TEMPLATES:
        text = template.read_text()
        opened = re.findall(r"\{\{-? (?:if|range|with) ", text)
        assert len(opened) == len(re.findall(r"\{\{-? ?end ?-?\}\}", text)), template.name


async def test_workers_are_scaled_by_a_metric_that_a_server_has():
    text = (CHART / "templates/workers.yaml").read_text()
    (query,) = re.findall(r"query: >-\n\s+(.*)", text)
    query = ACTION.sub("x", query)

    assert query.startswith("sum(flo_runs{")
    assert unknown_in(query, await metrics_of_a_server()) == []


def test_the_chart_sets_settings_that_there_are():
    text = "".join(template.read_text() for template in TEMPLATES)

    assert set(re.findall(r"FLO_SERVER_[A-Z_]*[A-Z]", text)) <= SETTINGS
