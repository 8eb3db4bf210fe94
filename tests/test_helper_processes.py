"""Every process that the package starts leaves the working directory out of its imports.

A helper that looked there first would run a `msgspec.py` that someone has put into the folder in
which the server was started.
"""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "flo"
STARTERS = {"subprocess", "multiprocessing", "pty", "concurrent.futures.process"}
CALLS = {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"}
CALLS |= {"ProcessPoolExecutor", "posix_spawn", "posix_spawnp", "forkpty"}
CALLS |= {"os.fork", "os.system", "os.popen", "os.execv", "os.execve", "os.execvp", "os.spawnv"}

START_PROCESSES = {
    "server/upkeep.py": "the snapshotter",
    "server/inside/schema_checker.py": "the process that holds payloads against schemas",
    "wasm/compiler.py": "the compiler of modules",
    "cli/dev/dev.py": "the server and the workers of flo dev",
    "cli/worker/reload.py": "flo worker run again, as cli/worker/run.py words it",
    "testing/process.py": "a server for a test",
    "worker/pipelines/context.py": "a program that a role handler runs",
}
NAME_PYTHON = {*START_PROCESSES, "cli/worker/run.py"} - {
    "cli/worker/reload.py",
    "worker/pipelines/context.py",
}
WHERE_THE_TEST_SAYS = {"testing/process.py": "a test may start a script of its own"}


def starts_processes(tree):
    """Whether a module can start another process."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(name.name in STARTERS for name in names):
                return True
            case ast.ImportFrom(module=module) if module in STARTERS:
                return True
            case ast.Attribute(attr=name) if {name, ast.unparse(node)} & CALLS:
                return True
            case ast.Name(id=name) if name in CALLS:
                return True
    return False


def names_python(node):
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"


def commands_of(tree):
    """What follows `sys.executable` wherever that stands."""
    for node in ast.walk(tree):
        match node:
            case ast.List(elts=words) | ast.Tuple(elts=words) | ast.Call(args=words):
                for place, word in enumerate(words):
                    if names_python(word):
                        yield [ast.unparse(one) for one in words[place + 1 :]]


def counted(tree):
    return sum(map(names_python, ast.walk(tree)))


MODULES = {
    str(path.relative_to(SOURCE)): ast.parse(path.read_text())
    for path in sorted(SOURCE.rglob("*.py"))
}


def test_only_these_modules_start_processes():
    assert {name for name, tree in MODULES.items() if starts_processes(tree)} == set(
        START_PROCESSES
    )


def test_only_these_modules_name_python():
    assert {name for name, tree in MODULES.items() if counted(tree)} == NAME_PYTHON


@pytest.mark.parametrize("name", sorted(NAME_PYTHON - set(WHERE_THE_TEST_SAYS)))
def test_python_is_told_to_leave_out_the_working_directory(name):
    commands = list(commands_of(MODULES[name]))

    assert len(commands) == counted(MODULES[name])
    assert all(command[:2] == ["'-P'", "'-m'"] for command in commands)


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess",
        "from multiprocessing import Process",
        "await asyncio.create_subprocess_exec('x')",
        "os.fork()",
        "ProcessPoolExecutor()",
    ],
)
def test_a_module_that_starts_a_process_is_found(text):
    assert starts_processes(ast.parse(text))


def test_a_command_without_the_flag_is_found():
    (command,) = commands_of(ast.parse("run([sys.executable, '-m', 'flo.shard.snapshotter'])"))

    assert command[0] != "'-P'"
