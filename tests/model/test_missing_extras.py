import subprocess
import sys

import pytest

from flo.model.errors import Conflict, ExtraMissing, needs_extra

WITHOUT_SERVER = "import sys; sys.modules['prometheus_client'] = sys.modules['structlog'] = None; "


def python(code):
    """What a Python without the packages of the server comes to."""
    command = [sys.executable, "-c", WITHOUT_SERVER + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_is_missing_is_named_with_the_line_that_brings_it():
    with pytest.raises(ExtraMissing) as refusal, needs_extra("wasm", "a WebAssembly action"):
        import no_such_package.of_ours  # noqa: F401

    assert refusal.value.message == (
        "a WebAssembly action needs no_such_package, which is not installed: "
        "pip install 'flo-runtime[wasm]'"
    )
    assert refusal.value.details == {"extra": "wasm", "package": "no_such_package"}


def test_it_is_an_import_error_and_a_refusal():
    assert issubclass(ExtraMissing, ImportError)
    assert issubclass(ExtraMissing, Conflict)


def test_a_module_of_ours_that_is_missing_is_a_mistake_and_stays_one():
    with pytest.raises(ModuleNotFoundError, match=r"flo\.nowhere"), needs_extra("server", "it"):
        import flo.nowhere  # noqa: F401


def test_a_server_without_its_packages_says_which_line_to_type():
    ended = python("from flo.cli.app.main import main; sys.exit(main(['server', 'start']))")

    assert (ended.returncode, ended.stdout) == (3, "")
    assert "pip install 'flo-runtime[server]' [extra_missing]" in ended.stderr


def test_so_do_the_embedded_server_and_the_test_kit():
    assert "EmbeddedServer needs " in python("from flo import EmbeddedServer").stderr
    assert "flo.testing needs structlog" in python("import flo.testing.workflows").stderr


def test_client_and_worker_need_none_of_them():
    ended = python("from flo import ActionWorker, Flo, StreamWorker; print('there')")

    assert ended.stdout == "there\n", ended.stderr
