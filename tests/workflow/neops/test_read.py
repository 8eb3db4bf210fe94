"""Documents of neops, read: what is wrong with them, and where."""

import pytest

from flo.workflow.document.read import read
from flo.workflow.steps import RunStep, TargetKind

ROOT = """\
label: upgrade
name: upgrade
package: lab.example
majorVersion: 1
minorVersion: 0
patchVersion: 2
seedEntity: {seed}
type: workflow
{more}steps:
{steps}"""
STEP = "  - {type: functionBlock, label: one, functionBlock: lab.example/echo:1}\n"


def document(*steps, more="", seed="global"):
    lines = "".join(f"  - {{type: functionBlock, {step}}}\n" for step in steps) or STEP
    return ROOT.format(seed=seed, more=more, steps=lines)


def problems(text):
    return [(one.code, one.path, one.line) for one in read(text).problems]


def test_a_document_is_published_under_its_package_name_and_version():
    definition = read(document()).definition
    assert (definition.name, definition.version) == ("lab.example@upgrade", "1.0.2")


def test_json_is_read_as_well():
    text = (
        '{"label": "a", "name": "a", "package": "p", "majorVersion": 1, "minorVersion": 0,'
        '"patchVersion": 0, "seedEntity": "global", "type": "workflow", "steps": [{"type":'
        '"functionBlock", "label": "one", "functionBlock": "p/b:1.2"}]}'
    )
    definition = read(text).definition
    assert definition.steps["one"].run.version == "1.2"


def test_a_block_step_runs_the_block():
    step = read(document()).definition.steps["one"]
    assert isinstance(step, RunStep)
    assert str(step.run) == "@blocks/lab.example/echo:1"


def test_a_document_of_ours_that_speaks_of_seed_entity_is_ours():
    text = (
        'kind: Workflow\nname: a\nversion: "1"\ndescription: seedEntity\n'
        'start: {run: "@actions/a", transitions: {success: flo.Completed, failure: flo.Failed}}\n'
    )
    assert read(text).definition.start.run.kind is TargetKind.ACTION


def test_no_document_of_ours_can_name_an_outcome_as_a_target():
    text = 'kind: Workflow\nname: a\nversion: "1"\nstart: {run: "@outcome/a"}\n'
    assert "E202" in [one.code for one in read(text).problems]


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        (document(seed="devise"), "E115", "seedEntity"),
        (document("label: steps, functionBlock: a/b:1"), "E115", "steps[0].label"),
        (document("label: a, functionBlock: a/b"), "E115", "steps[0].functionBlock"),
        (document("label: a"), "E117", "steps[0]"),
        (document("label: a, functionBlock: a/b:1, more: 1"), "E114", "steps[0]"),
        (document("label: a, functionBlock: a/b:1, delay: 601"), "E115", "steps[0].delay"),
        (
            document("label: a, functionBlock: a/b:1", "label: a, functionBlock: a/b:1"),
            "E105",
            "steps[1]",
        ),
        (
            document("label: a, functionBlock: a/b:1, condition: {type: jmes, jmes: 'a..b'}"),
            "E205",
            "steps[0].condition.jmes",
        ),
        (
            document("label: a, functionBlock: a/b:1, assert: [{type: jmes, jmes: '('}]"),
            "E205",
            "steps[0].assert[0].jmes",
        ),
        (
            document("label: a, functionBlock: a/b:1, parameters: {x: '{{ a.. }}'}"),
            "E205",
            "steps[0].parameters",
        ),
        (
            document("label: a, functionBlock: a/b:1, parameters: {x: '{{ a'}"),
            "E205",
            "steps[0].parameters",
        ),
        (
            document(
                "label: a, functionBlock: a/b:1, retryConfig: "
                "{maxRetries: 1, condition: {type: jmes, jmes: '['}}"
            ),
            "E205",
            "steps[0].retryConfig.condition.jmes",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, code, path):
    assert read(text).definition is None
    assert (code, path) in [(found[0], found[1]) for found in problems(text)]


def test_a_problem_has_the_line_of_the_value():
    text = document("label: a, functionBlock: a/b:1", "label: b, functionBlock: nothing")
    assert problems(text) == [("E115", "steps[1].functionBlock", 11)]


CRON = """\
cron:
  - title: nightly
    description: every night
    query: ""
    crontab: {{second: "{second}", minute: "30", hour: "{hour}", dayOfMonth: "*", month: "*",
      dayOfWeek: "*", timezone: Europe/Zurich}}
    concurrency: false
    enabled: {enabled}
    parameters: {{site: zrh}}
"""


def cron(second="0", hour="2", enabled="true", seed="global"):
    more = CRON.format(second=second, hour=hour, enabled=enabled)
    return read(document(more=more, seed=seed))


def test_cron_is_the_schedule_of_the_workflow():
    schedule = cron().definition.schedule
    assert (schedule.cron, schedule.timezone) == ("30 2 * * *", "Europe/Zurich")
    assert (schedule.input, schedule.max_concurrent) == ('{"parameters":{"site":"zrh"}}', 1)


def test_cron_that_is_not_enabled_is_no_schedule():
    assert cron(enabled="false").definition.schedule is None


@pytest.mark.parametrize("changed", [{"second": "*/5"}, {"hour": "25"}, {"seed": "device"}])
def test_cron_that_cannot_work_here_is_refused(changed):
    reading = cron(**changed)
    assert reading.definition is None
    assert {one.code for one in reading.problems} == {"E407"}


@pytest.mark.parametrize(
    "text",
    [
        "seedEntity",
        "seedEntity: 1",
        "seedEntity: [",
        "{seedEntity: {}}",
        "[seedEntity]",
        document(more="parameters: [1]\n"),
        document(more="steps: 1\n"),
        document().replace("majorVersion: 1", "majorVersion: 1.5"),
        document().replace("majorVersion: 1", "majorVersion: -1"),
    ],
)
def test_bad_documents_are_refused_and_nothing_is_raised(text):
    reading = read(text)
    assert reading.definition is None
    assert reading.problems
