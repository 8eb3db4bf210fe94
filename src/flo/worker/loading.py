"""Finds the worker that "module:attribute" or "path/to/file.py:attribute" names.

    app.workers:emails        an attribute of a module, found from the current folder or installed
    jobs/emails.py:worker     an attribute of a file; its folder is searched for what it imports
    app.workers               the attribute `worker`

The attribute is an ActionWorker, a StreamWorker or a PipelineWorker, or a function without
parameters that makes one.
"""

import difflib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from flo.model.errors import Invalid
from flo.worker.base import BaseWorker

ATTRIBUTE_DEFAULT = "worker"


def load_worker(target: str) -> BaseWorker:
    """The worker that the target names; Invalid says what is wrong with the target."""
    position, attribute = parse_target(target)
    module = _load_file(Path(position)) if position.endswith(".py") else _load_module(position)
    return _worker_of(_attribute_of(module, position, attribute), target)


def parse_target(target: str) -> tuple[str, str]:
    """Where to look, and for what."""
    if target.endswith(".py"):
        return target, ATTRIBUTE_DEFAULT
    position, colon, attribute = target.rpartition(":")
    if not colon:
        position, attribute = target, ATTRIBUTE_DEFAULT
    if not position or not all(part.isidentifier() for part in attribute.split(".")):
        raise _refusal(f"expected module:worker or path/to/file.py:worker, got {target!r}")
    return position, attribute


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _refusal(f"there is no file {str(path)!r} in {str(Path.cwd())!r}")
    path = path.resolve()
    _search(path.parent)
    name = path.stem if path.stem not in sys.modules else f"flo_worker_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _cannot_import(str(path), error) from error
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        hint = "; a file is named with its .py" if Path(name).with_suffix(".py").is_file() else ""
        raise _refusal(f"expected the name of a module, such as app.workers, got {name!r}{hint}")
    _search(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _cannot_import(name, error) from error
        raise _refusal(
            f"there is no module {error.name!r}: looked in {str(Path.cwd())!r} "
            "and in what is installed"
        ) from error
    except Exception as error:
        raise _cannot_import(name, error) from error


def _attribute_of(module: ModuleType, position: str, attribute: str) -> Any:
    value: Any = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            known = sorted(name for name, it in vars(module).items() if _is_worker(it))
            near = difflib.get_close_matches(part, known, n=1)
            hint = (
                f"did you mean {position}:{near[0]}?"
                if near
                else f"its workers are {', '.join(known)}"
                if known
                else "and no worker by another name"
            )
            raise _refusal(f"{position!r} has no {attribute!r}; {hint}") from None
    return value


def _worker_of(value: Any, target: str) -> BaseWorker:
    made = value
    if callable(value) and not _is_worker(value):
        try:
            made = value()
        except Exception as error:
            raise _cannot_import(target, error) from error
    if not isinstance(made, BaseWorker):
        raise _refusal(
            f"expected {target!r} to be an ActionWorker, a StreamWorker or a PipelineWorker, "
            f"got {type(made).__name__}"
        )
    return made


def _is_worker(value: Any) -> bool:
    return isinstance(value, BaseWorker)


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _cannot_import(position: str, error: Exception) -> Invalid:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return _refusal(f"{position!r} cannot be loaded: {type(error).__name__}: {error}{where}")


def _refusal(message: str) -> Invalid:
    return Invalid(message, code="worker_not_loadable")
