"""What can be counted of the rules of the code: names, folders, lengths, and nothing left out.

An exception is listed with its reason. The lists may only get shorter.
"""

import ast
import inspect
import textwrap
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from flo.engine.machine import QUERIES, RULES
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.operation import Permission
from flo.wire.opcodes import BY_NAME
from simulator.reference.handlers import handlers_of
from simulator.reference.log import MODELS

ROOT = Path(__file__).parents[1]
TREES = (ROOT / "src", ROOT / "simulator")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
FILES_IN_A_FOLDER_MAX = 15
FILES_WITH_A_PREFIX_MAX = 2
LAYERS_MAX = 8

NOT_OVER_HTTP = {
    "begin_transaction": "an open transaction belongs to one RPC connection",
    "commit_transaction": "an open transaction belongs to one RPC connection",
    "rollback_transaction": "an open transaction belongs to one RPC connection",
    "read_in_transaction": "an open transaction belongs to one RPC connection",
    "resume_worker": "a worker over HTTP has no connection: it lives by its heartbeats",
}
A_WORKER_OF_PIPELINES = "what a worker of pipelines says while it runs a node; nobody types it"
NOT_ON_THE_COMMAND_LINE = {
    "wait_for_runs": "the client sends it when a command waits: flo action invoke --wait",
    "resume_worker": "what a worker says first on a new connection; no command has one",
    "await_notifications": "the background listening of a worker; nobody types it",
    "await_node": A_WORKER_OF_PIPELINES,
    "heartbeat_node": A_WORKER_OF_PIPELINES,
    "watch_node": A_WORKER_OF_PIPELINES,
    "next_input": A_WORKER_OF_PIPELINES,
    "report_batch": A_WORKER_OF_PIPELINES,
    "finish_input": A_WORKER_OF_PIPELINES,
    "complete_node": A_WORKER_OF_PIPELINES,
    "fail_node": A_WORKER_OF_PIPELINES,
    "release_node": A_WORKER_OF_PIPELINES,
    "put_artifact": A_WORKER_OF_PIPELINES,
    "record_pipeline_event": A_WORKER_OF_PIPELINES,
    "transact": "flo kv txn sends the reads and writes of an open transaction instead",
}
NOTHING_TO_CHECK = {
    "ModuleStored": "no action of a simulation has a module; tests/acceptance/test_wasm.py has",
    "NamespaceCreated": "a new namespace is as empty as one that was never named",
    "LossAccepted": "an audit event; tests/acceptance/test_disk.py reads it from a real log",
    "PollExhausted": "a line of the history; the events around it say what comes of it",
    "ChildCancelled": "a line of the history; the child's own events say what comes of it",
    "HistoryFiled": "a part of the history is archived; whole histories are read at the end",
}


# ── names, folders, lengths ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_no_class_name_is_used_twice(tree):
    places = defaultdict(set)
    for path in _files(tree):
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(_name(path))

    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}

    assert not twice


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_three_files_that_share_a_prefix_are_a_folder(tree):
    shared = {}
    for folder, names in _folders(tree).items():
        for prefix, count in Counter(name.split("_")[0] for name in names).items():
            if count > FILES_WITH_A_PREFIX_MAX:
                shared[f"{folder}/{prefix}_*"] = count

    assert not shared


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_folder_has_few_files(tree):
    full = {
        folder: len(names)
        for folder, names in _folders(tree).items()
        if len(names) > FILES_IN_A_FOLDER_MAX
    }

    assert full == {}


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_file_is_not_long(tree):
    lengths = {_name(path): len(path.read_text().splitlines()) for path in _files(tree)}

    long = {name: length for name, length in lengths.items() if length > FILE_LINES_MAX}

    assert not long


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_function_is_not_long(tree):
    long = {}
    for path in _files(tree):
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long[f"{_name(path)}:{node.name}"] = length

    assert not long


def test_a_contract_has_few_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = {
        contract["name"]: len(contract.get("layers", ()))
        for contract in settings["tool"]["importlinter"]["contracts"]
    }

    assert not {name: count for name, count in layers.items() if count > LAYERS_MAX}


# ── every operation, every event ──────────────────────────────────────────────────────────────────


def test_every_operation_has_a_rule_or_a_query():
    assert not _those_without(
        lambda operation: operation.message in (QUERIES if operation.is_query else RULES)
    )


def test_every_operation_has_a_permission():
    assert not _those_without(lambda operation: operation.permission in Permission)


def test_every_operation_says_what_it_does():
    assert not _those_without(lambda operation: operation.help)


def test_every_operation_comes_through_the_rpc_port():
    assert not _those_without(
        lambda operation: BY_NAME[operation.name].request is operation.message
    )


def test_every_operation_has_a_route():
    """Derived from its declaration, or written by hand in server/http."""
    used = _names_in("server/http")

    without = _those_without(lambda one: one.http is not None or one.message.__name__ in used)

    assert without == set(NOT_OVER_HTTP)


def test_every_operation_has_a_method_of_the_client():
    assert not _those_without(lambda operation: _client_methods(operation.message.__name__))


def test_every_operation_has_a_command():
    """Derived from its declaration, or written by hand: with the message, or with the method of the
    noun of the client that sends it."""
    used, called = _names_in("cli"), _calls_in("cli")

    without = _those_without(
        lambda one: (
            one.cli is not None
            or one.message.__name__ in used
            or _noun_methods(one.message.__name__) & called
        )
    )

    assert without == set(NOT_ON_THE_COMMAND_LINE)


def test_every_event_means_something_to_the_reference_model():
    """And so to the invariants that it checks; that there is no hole is checked at its import."""
    ignored = {
        event.__name__
        for model in MODELS
        for event, name in handlers_of(model).items()
        if _is_empty(vars(model)[name])
    }

    assert ignored == set(NOTHING_TO_CHECK)


# ── how it is counted ─────────────────────────────────────────────────────────────────────────────


@cache
def _files(tree):
    return sorted(tree.rglob("*.py"))


@cache
def _parsed(path):
    return ast.parse(path.read_text())


def _name(path):
    return str(path.relative_to(ROOT))


def _folders(tree):
    folders = defaultdict(list)
    for path in _files(tree):
        if path.stem != "__init__":
            folders[_name(path.parent)].append(path.stem)
    return folders


def _those_without(has):
    return {operation.name for operation in OPERATIONS if not has(operation)}


@cache
def _names_in(folder):
    """Every name and attribute that the code of a folder uses."""
    return {
        name for path in _files(ROOT / "src" / "flo" / folder) for name in _used_in(_parsed(path))
    }


@cache
def _calls_in(folder):
    """Every attribute that the code of a folder uses, with the name of what it is one of."""
    return {
        (_last_name(node.value), node.attr)
        for path in _files(ROOT / "src" / "flo" / folder)
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.Attribute)
    }


def _last_name(node):
    """`workers` of flo.workers, `group` of flo.streams.group(...)."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last_name(function)
        case _:
            return ""


def _noun_methods(message):
    """The methods that send a message, each with the noun of the client that has it."""
    return {
        (path.stem, name)
        for path in _files(ROOT / "src" / "flo" / "client")
        for name in _senders(message, _functions_of(path))
    }


def _functions_of(path):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(_parsed(path))
    return [(node.name, _used_in(node)) for node in nodes if isinstance(node, functions)]


@cache
def _methods_of_the_client():
    paths = _files(ROOT / "src" / "flo" / "client")
    return [function for path in paths for function in _functions_of(path)]


def _client_methods(message):
    return _senders(message, _methods_of_the_client())


def _senders(message, functions):
    """The functions that send a message, or call a private one that does."""
    found = {name for name, used in functions if message in used}
    private = {name for name in found if name.startswith("_")}
    return found | {name for name, used in functions if used & private}


def _used_in(tree):
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return names


def _is_empty(method):
    """Whether there is nothing but a docstring in it."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(method))).body
    return len(function.body) == 1 and ast.get_docstring(function) is not None
