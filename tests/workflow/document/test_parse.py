"""Spellings, short forms and scalars; and that no text is too odd to be refused."""

import json
import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flo.workflow.definition import Concurrency, TerminalKind
from flo.workflow.document.fields import camel
from flo.workflow.document.parse import parse
from flo.workflow.document.problem import CODES, Problem
from flo.workflow.document.read import read
from flo.workflow.plan.plan import Cache, ErrorClasses, Executor, Health, Plan, RateLimit, Selection
from flo.workflow.retry import Backoff, Retry
from flo.workflow.steps import (
    ForEach,
    ParallelBranch,
    Rollback,
    RunStep,
    Sleep,
    SleepStep,
    Target,
    TargetKind,
    needed,
)

from ..documents import HEAD, SEED, SMALL

DOCUMENTS = sorted(path for path in SEED.glob("*.yaml") if path.name != "fragments.yaml")
ACTION = Target(kind=TargetKind.ACTION, name="a")
ENDS = {"success": "flo.Completed", "failure": "flo.Failed"}


def definition_of(text):
    definition, problems = read(text)
    assert definition is not None, problems
    return definition


def start_of(*lines):
    return definition_of(HEAD + "start:\n" + "".join(f"  {line}\n" for line in lines)).start


# ── twins ─────────────────────────────────────────────────────────────────────────────────────────


def respelt(value, spell):
    """The document with every key that the format knows in another spelling."""
    if isinstance(value, dict):
        return {
            key if key in ("steps", "plans", "terminals") else spell(key): respelt(inner, spell)
            for key, inner in value.items()
        }
    return [respelt(inner, spell) for inner in value] if isinstance(value, list) else value


NAMES = ("charge", "ship", "payment", "check", "await", "process", "generate", "notify", "fulfill")


def to_snake(key):
    return key if key[:1].isupper() else re.sub("([A-Z])", r"_\1", key).lower()


def to_camel(key):
    return key if key.startswith(NAMES) else camel(key)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("spell", [to_snake, to_camel])
def test_every_document_may_be_spelt_in_snake_case_and_in_camel_case(path, spell):
    text = path.read_text()
    twin = respelt(yaml.safe_load(text), spell)

    assert definition_of(yaml.safe_dump(twin, sort_keys=False)) == definition_of(text)


def test_the_twins_of_the_test_differ_from_the_originals():
    text = (SEED / "payment-processing.yaml").read_text()

    assert "max_attempts" in json.dumps(respelt(yaml.safe_load(text), to_snake))
    assert "maxAttempts" not in json.dumps(respelt(yaml.safe_load(text), to_snake))
    assert "failureThreshold" in json.dumps(respelt(yaml.safe_load(text), to_camel))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_may_be_json(path):
    text = path.read_text()

    assert definition_of(json.dumps(yaml.safe_load(text), indent=1)) == definition_of(text)


def test_json_may_hold_what_yaml_cannot():
    document = {**yaml.safe_load(SMALL), "description": "a\ud83d\ude00b \\/ \x01"}

    text = json.dumps(document)

    assert "\\ud83d\\ude00" in text
    assert definition_of(text).description == "a😀b \\/ \x01"


def test_a_mapping_in_braces_that_is_no_json_is_yaml():
    start = "{sleep: 5, transitions: {success: flo.Completed}}"
    text = f"{{kind: Workflow, name: w, version: 1, start: {start}}}"

    assert definition_of(text).name == "w"


def test_a_byte_order_mark_is_passed_over():
    assert definition_of("\ufeff" + SMALL) == definition_of(SMALL)


def test_an_alias_stands_for_its_anchor():
    text = (
        HEAD
        + """\
start:
  run: "@actions/a"
  retry: &patient {max_attempts: 9}
  transitions: {success: b, failure: flo.Failed}
steps:
  b:
    run: "@actions/b"
    retry: *patient
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    assert definition_of(text).steps["b"].retry == Retry(max_attempts=9)


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("health-weighted", Selection.HEALTH_WEIGHTED),
        ("health_weighted", Selection.HEALTH_WEIGHTED),
        ("static_order", Selection.STATIC_ORDER),
        ("roundRobin", Selection.ROUND_ROBIN),
        ("random", Selection.RANDOM),
    ],
)
def test_selections_have_twins(text, selection):
    executors = "[{name: a, run: '@actions/a'}]"
    plan = f"  p: {{selection: {text}, health: {{}}, executors: {executors}}}\n"

    assert definition_of(SMALL + "plans:\n" + plan).plans["p"].selection is selection


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        ("constant", Backoff.CONSTANT),
        ("linear", Backoff.LINEAR),
        ("exp", Backoff.EXPONENTIAL),
        ("exponential-jitter", Backoff.EXPONENTIAL_JITTER),
        ("exponential_jitter", Backoff.EXPONENTIAL_JITTER),
        ("exp-jitter", Backoff.EXPONENTIAL_JITTER),
    ],
)
def test_backoffs_have_twins(text, backoff):
    assert start_of(
        'run: "@actions/a"', f"retry: {{backoff: {text}}}", "transitions: {}"
    ).retry == Retry(backoff=backoff)


def test_the_names_of_the_published_parser_are_known():
    text = (
        SMALL
        + """\
plans:
  p:
    selection: health-weighted
    executors:
      - {name: a, run: "@actions/a", rateLimit: {maxPerSecond: 5}, retry: {max: 4}}
    health: {window: 5m, minSamples: 50}
    cache: {ttlMs: 1000, keyTemplate: "{input.a}", invalidateOn: [x]}
    classifyError: {retryable: [t], fatal: [f]}
"""
    )
    assert definition_of(text).plans["p"] == Plan(
        selection=Selection.HEALTH_WEIGHTED,
        executors=(
            Executor(
                name="a",
                action=ACTION,
                rate_limit=RateLimit(max_per_second=5),
                retry=Retry(max_attempts=4),
            ),
        ),
        health=Health(window_ms=300_000, min_samples=50),
        cache=Cache(ttl_ms=1_000, key="{input.a}", invalidate_on=("x",)),
        errors=ErrorClasses(retryable=("t",), fatal=("f",)),
    )


# ── scalars ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "version", ["1.0", "1.10", "2", "010", "1:30", "no", "on", "2026-01-31", "1e3"]
)
def test_a_version_without_quotes_is_the_text_that_was_written(version):
    assert definition_of(SMALL.replace('"1"', version)).version == version


@pytest.mark.parametrize("word", ["no", "on", "off", "yes", "y", "1:30", "010", "0x1f", "1_000"])
def test_words_that_yaml_once_took_for_something_else_are_texts(word):
    assert definition_of(SMALL + f"description: {word}\n").description == word


def test_on_and_no_are_fine_names_of_steps_and_outcomes():
    text = (
        HEAD
        + """\
start:
  run: "@actions/a"
  transitions: {yes: on, no: off, failure: flo.Failed}
steps:
  on: {sleep: 1, transitions: {success: flo.Completed}}
  off: {sleep: 1, transitions: {success: flo.Completed}}
"""
    )
    assert definition_of(text).start.transitions["no"] == "off"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1500", 1_500),
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
    ],
)
def test_durations(text, milliseconds):
    step = start_of(f"sleep: {text}", "transitions: {success: flo.Completed}")

    assert step.sleep == Sleep(duration_ms=milliseconds)


def test_what_is_left_empty_is_not_there():
    assert definition_of(SMALL + "steps:\nterminals:\nschedule: ~\n") == definition_of(SMALL)


# ── short forms, and what goes beyond the seed ────────────────────────────────────────────────────


def test_a_sleep_may_be_read_from_the_input():
    for line, sleep in {
        "sleep: $.input.delay_ms": Sleep(duration_from="$.input.delay_ms"),
        "sleep: {duration_from: $.input.delay_ms}": Sleep(duration_from="$.input.delay_ms"),
        "sleep: {until: $.input.due_at}": Sleep(until="$.input.due_at"),
        "sleep: {duration_ms: 5m}": Sleep(duration_ms=300_000),
    }.items():
        assert start_of(line, "transitions: {success: flo.Completed}").sleep == sleep


def test_a_rollback_in_short_and_in_full():
    refund = Target(kind=TargetKind.ACTION, name="refund")

    short = start_of('run: "@actions/a"', 'rollback: "@actions/refund"', "transitions: {}")
    full = start_of(
        'run: "@actions/a"',
        "rollback:",
        '  run: "@actions/refund"',
        "  inputMapping: {id: $.steps.start.output.id}",
        "  retry: {max_attempts: 9}",
        "transitions: {}",
    )

    assert short.rollback == Rollback(run=refund)
    assert full.rollback == Rollback(
        run=refund,
        input_mapping='{"id":"$.steps.start.output.id"}',
        retry=Retry(max_attempts=9),
    )


def test_a_concurrency_limit_in_short_and_in_full():
    assert definition_of(SMALL + "concurrency: 20\n").concurrency == Concurrency(max=20)
    assert definition_of(
        SMALL + 'concurrency: {key: "{input.customer_id}", max: 1}\n'
    ).concurrency == Concurrency(key="{input.customer_id}", max=1)


def test_a_terminal_in_short():
    text = SMALL.replace("failure: flo.Failed", "failure: Bad") + "terminals: {Bad: cancelled}\n"

    assert definition_of(text).ending_of("Bad") is TerminalKind.CANCELLED


def test_a_parallel_step_with_branches_of_three_forms():
    text = (
        HEAD
        + """\
start:
  parallel:
    join: 2
    branches:
      email: "@actions/email"
      stock:
        run: "@actions/stock"
        retry: {max_attempts: 3}
      payment:
        start:
          run: "@actions/authorize"
          transitions: {success: capture, failure: flo.Failed}
        steps:
          capture:
            run: "@actions/capture"
            transitions: {success: flo.Completed, failure: flo.Failed}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    parallel = definition_of(text).start.parallel

    assert parallel.join == 2
    assert list(parallel.branches) == ["email", "stock", "payment"]
    assert parallel.branches["email"] == ParallelBranch(
        start=RunStep(run=Target(kind=TargetKind.ACTION, name="email"), transitions=ENDS)
    )
    assert parallel.branches["stock"].start.retry == Retry(max_attempts=3)
    assert parallel.branches["stock"].start.transitions == ENDS
    assert parallel.branches["payment"].start.transitions["success"] == "capture"
    assert list(parallel.branches["payment"].steps) == ["capture"]


@pytest.mark.parametrize(("text", "join", "of_five"), [("all", 0, 5), ("any", 1, 1), ("3", 3, 3)])
def test_joins(text, join, of_five):
    step = start_of(
        f'forEach: {{items: $.input.list, run: "@actions/a", join: {text}}}', "transitions: {}"
    )

    assert step.for_each.join == join
    assert needed(join, 5) == of_five


def test_a_for_each_step():
    step = start_of(
        "forEach:",
        "  items: input.customers",
        '  run: "@actions/a"',
        "  inputMapping: {who: $.item, at: $.index}",
        "  concurrency: 5",
        "  maxItems: 50",
        "transitions: {success: flo.Completed, failure: flo.Failed}",
    )

    assert step.for_each == ForEach(
        items="$.input.customers",
        run=ACTION,
        input_mapping='{"who":"$.item","at":"$.index"}',
        concurrency=5,
        max_items=50,
    )


def test_an_output_may_be_a_path_a_text_or_a_mapping():
    for written, kept in {
        "$.steps.start.output": "$.steps.start.output",
        "'{\"a\": 1}'": '{"a": 1}',
        "{a: 1, b: [true, null, x]}": '{"a":1,"b":[true,null,"x"]}',
    }.items():
        assert definition_of(SMALL + f"output: {written}\n").output == kept


def test_transitions_may_lead_back_to_the_start():
    for name in ("start", "_start"):
        text = SMALL.replace("success: flo.Completed", "success: a") + (
            f"steps:\n  a: {{sleep: 5m, transitions: {{success: {name}}}}}\n"
        )
        assert definition_of(text).steps["a"].transitions == {"success": "start"}


# ── odd texts ─────────────────────────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(
    [
        "kind: Workflow\n",
        "name: a\n",
        "version: 1\n",
        "start:\n",
        "steps:\n",
        "  run: ",
        "  ",
        "\t",
        '"@actions/a"',
        "transitions:",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "&a ",
        "*a",
        "!!",
        "!x ",
        "|\n",
        ">\n",
        "'",
        '"',
        "#",
        "? ",
        "---\n",
        "...\n",
        "%",
        "<<: ",
        "~",
        "parallel:",
        "forEach:",
        "branches:",
        "sleep: ",
        "waitForSignal:",
        "retry:",
        "plans:",
        "executors:",
        "\n",
        "\r\n",
        "\u2028",
        "\ufeff",
        "\x00",
        "$.input",
        "null",
        "1e999",
        "-",
        ",",
        "😀",
        "\\",
        "schedule:",
        "cron: ",
        "terminals:",
        "output: ",
    ]
)


def is_well_told(problem, text):
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", text)
    return (
        isinstance(problem, Problem)
        and problem.code in CODES
        and bool(problem.message)
        and 1 <= problem.line <= len(lines)
        and problem.column >= 1
    )


@settings(max_examples=600, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=40).map("".join)))
@example("{")
@example('{"kind": "Workflow"')
@example("&a a: *a")
@example("? a\n? b\n")
@example("a: !<tag:yaml.org,2002:str> b")
@example("\ud800")
def test_no_text_is_too_odd_to_be_refused(text):
    definition, problems = read(text)

    assert (definition is None) == any(one.severity == "error" for one in problems)
    assert all(is_well_told(one, text) for one in problems)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_no_value_is_too_odd_to_stand_anywhere(data):
    path = data.draw(st.sampled_from(DOCUMENTS))
    document = yaml.safe_load(path.read_text())
    _replace_one(document, data)

    text = json.dumps(document)
    definition, problems = read(text)

    assert (definition is None) == any(one.severity == "error" for one in problems)
    assert all(is_well_told(one, text) for one in problems)


def _replace_one(value, data):
    """Put something odd at a random place."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = data.draw(st.sampled_from(keys))
    if isinstance(value[key], dict | list) and value[key] and data.draw(st.booleans()):
        _replace_one(value[key], data)
    else:
        value[key] = data.draw(JSON)


def test_parse_keeps_what_it_could_read_beside_what_it_could_not():
    parsed = parse(SMALL + "steps:\n  a: {run: 5, transitions: {success: b}}\n  b: {sleep: 5}\n")

    assert parsed.definition is not None
    assert parsed.definition.steps["a"].transitions == {"success": "b"}
    assert parsed.definition.steps["b"] == SleepStep(sleep=Sleep(duration_ms=5))
    assert [one.code for one in parsed.problems] == ["E115"]
