"""Finds blocks: imports every Python file below some folders.

Passed over are folders called tests, test, testing or __pycache__, those that begin with a dot, and
files called __init__.py or test_*.py. A module is called as Python would call it, from the folder
above its outermost package, so that modules can import their neighbours. Where two folders have a
module of the same name, each is imported with its own neighbours: none hides the other.
"""

import importlib
import importlib.util
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from flo.model.errors import Invalid
from flo.worker.blocks.block import REGISTRY, DeclaredBlock

FOLDERS_PASSED_OVER = frozenset({"tests", "test", "testing", "__pycache__"})

_logger = logging.getLogger("flo.worker")


class BlockModule(NamedTuple):
    """A file, by the name under which it is imported from its root."""

    root: Path
    name: str
    file: Path

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


def discover(folders: Iterable[str | Path]) -> list[DeclaredBlock]:
    """Import what is there; the blocks that were declared by it, by id.

    Invalid says which file cannot be imported, and where that is.
    """
    modules = [module for folder in folders for module in modules_in(Path(folder))]
    before = {id(declared) for declared in REGISTRY.all()}
    by_root: dict[Path, dict[Path, BlockModule]] = {}
    for module in modules:
        by_root.setdefault(module.root, {})[module.file] = module
    for root, files in by_root.items():
        _set_others_aside(root, {module.top for module in files.values()})
        for module in files.values():
            _import(module)
    sys.path.extend(str(root) for root in by_root if str(root) not in sys.path)
    seen = {file for files in by_root.values() for file in files}
    return [
        declared
        for declared in REGISTRY.all()
        if id(declared) not in before or Path(declared.place[0]).resolve() in seen
    ]


def modules_in(folder: Path) -> Iterator[BlockModule]:
    """The files to be imported, in the order of their paths."""
    folder = folder.resolve()
    if not folder.is_dir():
        _logger.warning("there is no folder %s: no blocks are looked for there", folder)
        return
    for path in _files_below(folder):
        root = path.parent
        while (root / "__init__.py").is_file():
            root = root.parent
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        yield BlockModule(root, name, path)


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in FOLDERS_PASSED_OVER and not path.name.startswith("."):
                yield from _files_below(path)
        elif path.suffix == ".py" and not path.name.startswith(("test_", ".", "__init__.")):
            yield path


def _import(module: BlockModule) -> ModuleType:
    known = sys.modules.get(module.name)
    if known is not None and _file_of(known) == module.file:
        _discovered_tops[module.top] = module.root
        return known
    if _is_installed(module):  # a block file called json.py does not hide json
        return _load(module, f"flo_blocks.{module.root.name}.{module.name}")
    sys.path.insert(0, str(module.root))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module.name)
    except Exception as error:
        raise _cannot_import(module.file, error) from error
    finally:
        sys.path.remove(str(module.root))


def _load(module: BlockModule, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, module.file)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except Exception as error:
        del sys.modules[name]
        raise _cannot_import(module.file, error) from error
    return made


def _set_others_aside(root: Path, tops: set[str]) -> None:
    """Give the modules of these names that were found in another folder other names."""
    for top in tops & _discovered_tops.keys():
        if _discovered_tops[top] != root and top in sys.modules:
            suffix = f"flo_blocks.{id(sys.modules[top]):x}"
            for name in [one for one in sys.modules if f"{one}.".startswith(f"{top}.")]:
                sys.modules[f"{suffix}.{name}"] = sys.modules.pop(name)


def _is_installed(module: BlockModule) -> bool:
    """Whether there is a module of this name that has nothing to do with blocks."""
    top = module.top
    if top not in _discovered_tops and (
        top in sys.stdlib_module_names
        or (top in sys.modules and not _is_below(sys.modules[top], module.root))
    ):
        return True
    _discovered_tops[top] = module.root
    return False


_discovered_tops: dict[str, Path] = {}
"""The folder that each module on top was found in last."""


def _is_below(module: ModuleType, root: Path) -> bool:
    file = _file_of(module)
    if file is None:  # a package without __init__.py
        return any(Path(one).resolve().parent == root for one in getattr(module, "__path__", ()))
    return file.is_relative_to(root)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file is not None else None


def _cannot_import(file: Path, error: Exception) -> Invalid:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return Invalid(
        f"{str(file)!r} cannot be imported: {type(error).__name__}: {error}{where}",
        code="block_not_loadable",
    )
