"""Bad documents: each is refused with its code, at its line and column.

The mark « stands before the place that the problem names, and is taken out before reading.
"""
# ruff: noqa: E501 - a document on a line is a row of a table

import pytest

from flo.workflow.document.problem import Severity
from flo.workflow.document.read import read

from ..documents import HEAD, SMALL, START, marked

STEP = HEAD + "start:\n"
ENDS = "  transitions: {success: flo.Completed, failure: flo.Failed}\n"
RUN = STEP + '  run: "@actions/a"\n'
PLAN = HEAD + 'start:\n  run: "@plan/p"\n' + ENDS + "plans:\n  p:\n"
EXECUTORS = '    executors:\n      - {name: a, action: "@actions/a"}\n'
PARALLEL = STEP + "  parallel:\n"
EACH = STEP + "  forEach:\n"

TEXTS = {
    "nothing": ("«", "E112"),
    "only a comment": ("«# nothing here\n", "E112"),
    "two documents": (SMALL + "«---\n" + SMALL, "E112"),
    "a list": ("«- kind\n- name\n", "E115"),
    "a text": ("«hello\n", "E115"),
    "a tab": (HEAD + "start:\n«\trun: x\n", "E110"),
    "a tab before a list": (HEAD + "searchAttributes:\n«\t- name: x\n", "E110"),
    "an open bracket": (HEAD + "start: [1,\n«", "E110"),
    "an open quote": (HEAD + 'start: "run«', "E110"),
    "a bare @": (HEAD + "start:\n  run: «@actions/check\n", "E110"),
    "two colons": (HEAD + "start: run«: x\n", "E110"),
    "wrong indentation": (HEAD + "start:\n    a: b\n  «c: d\n", "E110"),
    "a control character": (HEAD + "start: «\x07\n", "E110"),
    "half a surrogate pair": (HEAD + "start: «\ud800\n", "E110"),
    "an unknown anchor": (HEAD + "start: «*nobody\n", "E110"),
    "an anchor in itself": (HEAD + "start: &a {b: «*a}\n", "E111"),
    "deep nesting": (HEAD + "output: " + "[" * 50 + "«[" + "]" * 51 + "\n", "E111"),
    "deep JSON": ('{"output": ' + "[" * 50 + "«[" + "]" * 51 + "}", "E111"),
    "too much text": ("«" + HEAD + "description: " + "x" * 1024 * 1024, "E111"),
    "too many bytes": ("«" + HEAD + "description: " + "ü" * 600 * 1024, "E111"),
}  # fmt: skip

STRUCTURE = {
    "no name": ('«kind: Workflow\nversion: "1"\n' + START, "E101"),
    "an empty name": ('kind: Workflow\nname: «""\nversion: "1"\n' + START, "E101"),
    "a name with spaces": ('kind: Workflow\nname: «my flow\nversion: "1"\n' + START, "E119"),
    "a long name": (f'kind: Workflow\nname: «{"x" * 257}\nversion: "1"\n' + START, "E119"),
    "a number for a name": ('kind: Workflow\nname: «7\nversion: "1"\n' + START, "E115"),
    "nothing for a name": ('kind: Workflow\n«name:\nversion: "1"\n' + START, "E101"),
    "no version": ("«kind: Workflow\nname: order\n" + START, "E102"),
    "an empty version": ('kind: Workflow\nname: order\nversion: «""\n' + START, "E102"),
    "a boolean for a version": ("kind: Workflow\nname: order\nversion: «true\n" + START, "E115"),
    "a version with a space": ("kind: Workflow\nname: order\nversion: «1 0\n" + START, "E119"),
    "no start": (HEAD.replace("kind", "«kind"), "E103"),
    "no kind": ('«name: order\nversion: "1"\n' + START, "E108"),
    "another kind": ('kind: «Pipeline\nname: order\nversion: "1"\n' + START, "E108"),
    "kind twice": (SMALL + "«kind: Workflow\n", "E113"),
    "a key twice": (SMALL + "description: a\n«description: b\n", "E113"),
    "a key twice in JSON": ('{"kind": "Workflow",\n "name": "a", «"name": "b",\n "version": "1",\n "start": {"run": "@actions/a"}}', "E113"),
    "both spellings of a key": (SMALL + "searchAttributes: []\n«search_attributes: []\n", "E113"),
    "an unknown key": (SMALL + "«stepz: {}\n", "E114"),
    "an unknown key of a step": (RUN + "  «timeout: 5\n" + ENDS, "E114"),
    "an unknown key of a retry": (RUN + "  retry: {«attempts: 5}\n" + ENDS, "E114"),
    "a merge key": (HEAD + "start:\n  «<<: {a: 1}\n" + '  run: "@actions/a"\n' + ENDS, "E114"),
    "a number for a key": (RUN + "  transitions: {success: flo.Completed, failure: flo.Failed, «404: flo.Failed}\n", "E116"),
    "a list for a key": (SMALL + "? «[a]\n: b\n", "E116"),
    "a tag": (SMALL + "description: «!secret x\n", "E116"),
    "a bad idempotency": (SMALL + "idempotency: «maybe\n", "E118"),
    "a list for steps": (SMALL + "steps: «[]\n", "E115"),
    "a text for a step": (HEAD + "start: «check\n", "E115"),
    "a step without a kind": (HEAD + "start:\n  «transitions: {success: flo.Completed}\n", "E117"),
    "a step of two kinds": (RUN + "  «sleep: 5\n" + ENDS, "E120"),
    "a step twice": (SMALL + 'steps:\n  a: {sleep: 1, transitions: {success: a}}\n  «a: {sleep: 1}\n', "E105"),
    "a step named start": (SMALL + "steps:\n  «start: {sleep: 1, transitions: {success: flo.Completed}}\n", "E105"),
    "a step named _start": (SMALL + "steps:\n  «_start: {sleep: 1, transitions: {success: flo.Completed}}\n", "E105"),
    "a step with a dot": (SMALL + "steps:\n  «a.b: {sleep: 1, transitions: {success: flo.Completed}}\n", "E119"),
    "a terminal twice": (SMALL + "terminals:\n  Bad: {status: failed}\n  «Bad: {status: failed}\n", "E107"),
    "a terminal like a built-in": (SMALL + "terminals:\n  «flo.Failed: {status: failed}\n", "E107"),
    "a terminal like a step": (RUN + "  transitions: {success: a, failure: flo.Failed}\nsteps:\n  a: {sleep: 1, transitions: {success: flo.Completed}}\nterminals:\n  «a: failed\n", "E107"),
    "a terminal that does not end": (SMALL + "terminals: {Bad: {status: «running}}\n", "E118"),
    "a number for a goal": (RUN + "  transitions: {success: «5, failure: flo.Failed}\n", "E115"),
    "nothing for a goal": (RUN + "  transitions: {success: «'', failure: flo.Failed}\n", "E119"),
    "too many transitions": (RUN + "  transitions: «{success: flo.Completed, failure: flo.Failed, " + ", ".join(f"o{n}: flo.Failed" for n in range(31)) + "}\n", "E111"),
}  # fmt: skip

REFERENCES = {
    "a transition to nowhere": (RUN + "  transitions: {success: «shp, failure: flo.Failed}\n", "E201"),
    "onTimeout to nowhere": (STEP + "  waitForSignal: {type: a, timeoutMs: 5, onTimeout: «x}\n  transitions: {success: flo.Completed}\n", "E201"),
    "a built-in misspelt": (RUN + "  transitions: {success: flo.Completed, failure: «flo.failed}\n", "E201"),
    "a target without a prefix": (STEP + "  run: «check\n" + ENDS, "E202"),
    "a target without a name": (STEP + '  run: «"@actions/"\n' + ENDS, "E202"),
    "an unknown prefix": (STEP + '  run: «"@action/a"\n' + ENDS, "E202"),
    "a version of nothing": (STEP + '  run: «"@workflow/a:"\n' + ENDS, "E202"),
    "an executor that is a workflow": (PLAN + '    executors:\n      - {name: a, action: «"@workflow/a"}\n', "E202"),
    "an undefined plan": (STEP + '  run: «"@plan/payment"\n' + ENDS, "E203"),
    "a path of nothing": (RUN + "  inputMapping: {a: «$.inputs.x}\n" + ENDS, "E205"),
    "a path of nothing in text": (RUN + """  inputMapping: '{"a": "«$.inputs.x"}'\n""" + ENDS, "E205"),
    "a path of nothing in text with escapes": (RUN + """  inputMapping: «"{\\"a\\": \\"$.inputs.x\\"}"\n""" + ENDS, "E205"),
    "a path of nothing in text on two lines": (RUN + """  inputMapping: «'{"a": 1,\n    "b": "$.inputs.x"}'\n""" + ENDS, "E205"),
    "a path of nothing in a block of text": (RUN + """  inputMapping: «>-\n    {"a": "$.inputs.x"}\n""" + ENDS, "E205"),
    "a path of half a step": (RUN + "  inputMapping: «$.steps.start\n" + ENDS, "E205"),
    "an item outside of forEach": (RUN + "  inputMapping: {a: «$.item.x}\n" + ENDS, "E205"),
    "a broken index": (RUN + "  inputMapping: {a: «'$.input[x]'}\n" + ENDS, "E205"),
    "a path of a step that is not there": (RUN + "  inputMapping: {a: «$.steps.shp.output}\n" + ENDS, "E206"),
    "an output of a step that is not there": (SMALL + "output: «$.steps.shp.output\n", "E206"),
    "a search attribute of a step": (SMALL + "searchAttributes:\n  - {name: a, from: «$.steps.start.output}\n", "E205"),
    "a search attribute twice": (SMALL + "searchAttributes:\n  - {name: a, from: input.a}\n  - {name: «a, from: input.b}\n", "E113"),
    "a broken template": (SMALL + 'concurrency: {key: «"{input.a", max: 1}\n', "E208"),
    "a template of a step": (SMALL + 'concurrency: {key: «"{steps.start.output}", max: 1}\n', "E205"),
    "a branch that leaves its parallel step": (PARALLEL + '    branches:\n      a: {run: "@actions/a", transitions: {success: «b, failure: flo.Failed}}\n' + ENDS + "steps:\n  b: {sleep: 1, transitions: {success: flo.Completed}}\n", "E201"),
    "a rollback that is a plan": (RUN + '  rollback: «"@plan/p"\n' + ENDS, "E202"),
}  # fmt: skip

VALUES = {
    "no attempts": (RUN + "  retry: {max_attempts: «0}\n" + ENDS, "E401"),
    "negative attempts": (RUN + "  retry: {max_attempts: «-1}\n" + ENDS, "E401"),
    "too many attempts": (RUN + "  retry: {max_attempts: «1001}\n" + ENDS, "E401"),
    "a first delay above the last": (RUN + "  retry: {initial_delay_ms: «60000}\n" + ENDS, "E401"),
    "attempts in quotes": (RUN + "  retry: {max_attempts: «'3'}\n" + ENDS, "E115"),
    "attempts with a leading zero": (RUN + "  retry: {max_attempts: «010}\n" + ENDS, "E115"),
    "attempts in base sixty": (RUN + "  retry: {max_attempts: «1:30}\n" + ENDS, "E115"),
    "attempts with a fraction": (RUN + "  retry: {max_attempts: «3.0}\n" + ENDS, "E115"),
    "a boolean for attempts": (RUN + "  retry: {max_attempts: «true}\n" + ENDS, "E115"),
    "an unknown backoff": (RUN + "  retry: {backoff: «fibonacci}\n" + ENDS, "E118"),
    "a duration of nothing": (RUN + "  retry: {within_ms: «5 minutes}\n" + ENDS, "E115"),
    "a duration of centuries": (RUN + "  retry: {within_ms: «999999d}\n" + ENDS, "E401"),
    "a poll without attempts": (RUN + "  poll: {maxAttempts: «0}\n" + ENDS, "E406"),
    "a base delay above the last": (RUN + "  poll: {baseDelayMs: «120000}\n" + ENDS, "E406"),
    "a signal without a type": (STEP + "  waitForSignal: «{timeoutMs: 5}\n  transitions: {success: flo.Completed}\n", "E117"),
    "a signal without a timeout of its own": (STEP + "  waitForSignal: {type: a, timeoutMs: «0}\n  transitions: {success: flo.Completed}\n", "E119"),
    "a sleep of nothing": (STEP + "  sleep: «{}\n  transitions: {success: flo.Completed}\n", "E117"),
    "a sleep twice": (STEP + "  sleep: {until: $.input.a, «duration_ms: 5}\n  transitions: {success: flo.Completed}\n", "E120"),
    "a sleep for a word": (STEP + "  sleep: «long\n  transitions: {success: flo.Completed}\n", "E115"),
    "no branches": (PARALLEL + "    branches: «{}\n" + ENDS, "E410"),
    "branches missing": (STEP + "  parallel: «{join: all}\n" + ENDS, "E117"),
    "a join of more than there are": (PARALLEL + '    join: «3\n    branches: {a: "@actions/a", b: "@actions/b"}\n' + ENDS, "E410"),
    "a join of none": (PARALLEL + '    join: «0\n    branches: {a: "@actions/a"}\n' + ENDS, "E410"),
    "a join of some": (PARALLEL + '    join: «some\n    branches: {a: "@actions/a"}\n' + ENDS, "E115"),
    "parallel in parallel": (PARALLEL + '    branches:\n      a:\n        «parallel: {branches: {b: "@actions/b"}}\n' + ENDS, "E410"),
    "a branch named like a step": (PARALLEL + '    branches: {«a: "@actions/a"}\n  transitions: {success: a, failure: flo.Failed}\nsteps:\n  a: {sleep: 1, transitions: {success: flo.Completed}}\n', "E105"),
    "an unknown key of a branch": (PARALLEL + '    branches:\n      a:\n        start: {run: "@actions/a", transitions: {success: flo.Completed, failure: flo.Failed}}\n        «stesp: {}\n' + ENDS, "E114"),
    "no items": (EACH + '    «run: "@actions/a"\n' + ENDS, "E117"),
    "items without concurrency": (EACH + '    run: "@actions/a"\n    items: $.input.a\n    concurrency: «0\n' + ENDS, "E410"),
    "items of a plan": (PLAN + EXECUTORS + 'steps:\n  a:\n    forEach: {items: $.input.a, run: «"@plan/p"}\n', "E202"),
    "no executors": (PLAN + "    executors: «[]\n", "E104"),
    "executors missing": (PLAN + "    «selection: random\n", "E104"),
    "an executor twice": (PLAN + EXECUTORS + '      - {name: «a, action: "@actions/b"}\n', "E106"),
    "an executor without a name": (PLAN + '    executors:\n      - «{action: "@actions/a"}\n', "E117"),
    "an executor without an action": (PLAN + "    executors:\n      - «{name: a}\n", "E117"),
    "an executor with two actions": (PLAN + '    executors:\n      - {name: a, action: "@actions/a", «run: "@actions/a"}\n', "E113"),
    "an unknown selection": (PLAN + EXECUTORS + "    selection: «best\n", "E118"),
    "a breaker that is always open": (PLAN + '    executors:\n      - {name: a, action: "@actions/a", breaker: {failure_threshold: «0}}\n', "E402"),
    "a breaker without probes": (PLAN + '    executors:\n      - {name: a, action: "@actions/a", breaker: {half_open_max_calls: «0}}\n', "E402"),
    "a limit of nothing": (PLAN + '    executors:\n      - {name: a, action: "@actions/a", rate_limit: {max_per_second: «0}}\n', "E403"),
    "a cache without time": (PLAN + EXECUTORS + '    cache: {ttl_ms: «0, key: "{input.a}"}\n', "E404"),
    "a cache without a key": (PLAN + EXECUTORS + "    cache: «{ttl_ms: 5}\n", "E404"),
    "a cache with an empty key": (PLAN + EXECUTORS + "    cache: {ttl_ms: 5, key: «''}\n", "E404"),
    "a cache key of nothing": (PLAN + EXECUTORS + '    cache: {key: «"{nobody.a}"}\n', "E208"),
    "no decay": (PLAN + EXECUTORS + "    selection: health-weighted\n    health: {decay: «0}\n", "E405"),
    "too much decay": (PLAN + EXECUTORS + "    selection: health-weighted\n    health: {decay: «1.5}\n", "E405"),
    "no window": (PLAN + EXECUTORS + "    selection: health-weighted\n    health: {window_ms: «0}\n", "E405"),
    "no samples": (PLAN + EXECUTORS + "    selection: health-weighted\n    health: {min_samples: «0}\n", "E405"),
    "health-weighted without health": (PLAN + EXECUTORS + "    selection: «health-weighted\n", "E405"),
    "an error of both classes": (PLAN + EXECUTORS + "    errors: {retryable: [a], fatal: «[a, b]}\n", "E501"),
    "numbers among errors": (PLAN + EXECUTORS + "    errors: {retryable: [a, «5]}\n", "E115"),
    "a fallback without a value": (PLAN + EXECUTORS + "    fallback: «{condition: exhausted}\n", "E117"),
    "cron and interval": (SMALL + "schedule: {cron: '* * * * *', «interval: 5}\n", "E120"),
    "neither cron nor interval": (SMALL + "schedule: «{paused: true}\n", "E117"),
    "a cron of four fields": (SMALL + "schedule: {cron: «'* * * *'}\n", "E407"),
    "an unknown time zone": (SMALL + "schedule: {cron: '* * * * *', timezone: «Mars/Olympus}\n", "E407"),
    "an interval of nothing": (SMALL + "schedule: {interval: «0}\n", "E407"),
    "a schedule with broken input": (SMALL + "schedule: {interval: 5, input: «'{'}\n", "E407"),
    "yes for true": (SMALL + "schedule: {interval: 5, paused: «yes}\n", "E115"),
    "a trigger without a stream": (SMALL + "trigger: «{batch_size: 1}\n", "E117"),
    "a batch of nothing": (SMALL + "trigger: {stream: a, batch_size: «0}\n", "E408"),
    "a mode of nothing": (SMALL + "trigger: {stream: a, mode: «fanout}\n", "E118"),
    "a bad namespace": (SMALL + "trigger: {stream: a, namespace: «a/b}\n", "E408"),
    "no runs at a time": (SMALL + "concurrency: {max: «0}\n", "E409"),
    "an attribute of another type": (SMALL + "searchAttributes:\n  - {name: a, type: «date, from: input.a}\n", "E118"),
    "an attribute without a source": (SMALL + "searchAttributes:\n  - «{name: a, type: string}\n", "E117"),
    "an endless number in a mapping": (RUN + "  inputMapping: «{a: 1e999}\n" + ENDS, "E115"),
    "a key twice in a mapping": (RUN + "  inputMapping: {a: 1, «a: 2}\n" + ENDS, "E113"),
}  # fmt: skip

CASES = {**TEXTS, **STRUCTURE, **REFERENCES, **VALUES}


@pytest.mark.parametrize(("text", "code"), CASES.values(), ids=CASES.keys())
def test_a_bad_document_is_refused_at_the_place_of_its_mistake(text, code):
    text, line, column = marked(text)

    definition, problems = read(text)

    errors = [one for one in problems if one.severity is Severity.ERROR]
    assert definition is None
    assert [(one.code, one.line, one.column) for one in errors] == [(code, line, column)]


def test_the_small_document_itself_is_accepted():
    assert read(SMALL) == (read(SMALL).definition, ())
    assert read(SMALL).definition is not None


def test_all_mistakes_are_told_at_once():
    text = """\
kind: Workflow
name: 5
version: "1"
color: red
start:
  run: check
  retry: {max_attempts: 0, backof: linear}
  transitions: {success: shp, failure: flo.Failed}
steps:
  ship:
    waitForSignal: {timeoutMs: x}
    transitions: {success: nowhere}
plans:
  p: {executors: [], selection: best}
"""
    problems = read(text).problems

    assert [(one.code, one.line) for one in problems] == [
        ("E115", 2),
        ("E114", 4),
        ("E202", 6),
        ("E401", 7),
        ("E114", 7),
        ("E201", 8),
        ("E117", 11),
        ("E115", 11),
        ("E201", 12),
        ("E104", 14),
        ("E118", 14),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (SMALL + "stepz: {}\n", "did you mean 'steps'?"),
        (SMALL + "searchAtributes: []\n", "did you mean 'searchAttributes'?"),
        (RUN + "  retry: {maxAttempt: 3}\n" + ENDS, "did you mean 'maxAttempts'?"),
        (RUN + "  transitions: {success: flo.Complete, failure: flo.Failed}\n", "did you mean 'flo.Completed'?"),
        (STEP + '  run: "@action/a"\n' + ENDS, "did you mean '@actions'?"),
        (STEP + "  run: check\n" + ENDS, 'did you mean "@actions/check"?'),
        (RUN + "  retry: {backoff: expnential}\n" + ENDS, "did you mean 'exponential'?"),
        (RUN + "  inputMapping: {a: $.inptu.x}\n" + ENDS, "did you mean '$.input'?"),
        (RUN + "  inputMapping: {a: $.steps.strat.output}\n" + ENDS, "did you mean 'start'?"),
        (HEAD + "start: {runn: a}\n", "did you mean 'run'?"),
        (SMALL + "schedule: {interval: 5, paused: off}\n", "write false"),
        (RUN + "  retry: {max_attempts: 010}\n" + ENDS, "write 10, without quotes and without leading zeros"),
        (RUN + "  transitions: {success: a, 404: b}\n", 'write it in quotes: "404"'),
        (HEAD + "start:\n  run: @actions/a\n", 'put it in quotes: "@…"'),
        (SMALL + "zzzz: 1\n", "known are name, version, start, steps, description, idempotency, terminals, plans, schedule, trigger, concurrency, searchAttributes, output, limits, actionWaitMs"),
    ],
)  # fmt: skip
def test_a_hint_says_what_would_help(text, hint):
    assert hint in [one.hint for one in read(text).problems]


def test_aliases_cannot_make_a_document_grow_without_end():
    layers = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    bomb = HEAD + "output:\n  a0: &a0 [x, x]\n" + "".join(f"  {layer}\n" for layer in layers)

    (found,) = read(bomb).problems

    assert found.code == "E111"
    assert "aliases included" in found.message


def test_aliases_cannot_make_a_document_deeper_than_it_looks():
    nest = "[" * 30 + "x" + "]" * 30
    text = HEAD + f"output:\n  a: &a {nest}\n  b: {'[' * 30}*a{']' * 30}\n" + START

    (found,) = read(text).problems

    assert (found.code, found.message) == ("E111", "expected at most 50 levels of nesting")


def test_too_many_values_are_refused():
    (found,) = read(HEAD + "output: [" + "1," * 50_001 + "]\n").problems

    assert found.code == "E111"


def test_no_more_is_told_than_can_be_read_and_errors_come_before_warnings():
    steps = "".join(
        f"  s{n}: {{sleep: 1, transitions: {{success: flo.Completed}}}}\n" for n in range(300)
    )
    doubtful = SMALL + "steps:\n" + steps
    bad = doubtful.replace("s299: {sleep: 1", "s299: {sleep: x")

    assert len(read(doubtful).problems) == 100
    assert read(doubtful).definition is not None
    assert [one.code for one in read(bad).problems] == ["E115"]
    assert len(read(SMALL + "".join(f"k{n}: 1\n" for n in range(300))).problems) == 100


def test_a_problem_says_what_it_is_about():
    text = (
        PLAN + '    executors:\n      - {name: a, action: "@actions/a", retry: {max_attempts: 0}}\n'
    )

    (found,) = read(text).problems

    assert found.path == "plans.p.executors[0].retry.max_attempts"
    assert found.message == "expected max_attempts of at least 1, got 0"
