"""Writes the stubs that follow from the code, for type checkers: `make docs`.

    src/flo/__init__.pyi                 the public names, which are loaded when they are first used
    src/flo/client/proxies/nouns.pyi    the blocking client, which is derived from the async one

A test fails when one is out of date.
"""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import flo
from flo.client.proxies import nouns
from flo.client.proxies.proxy import PROXIES, BlockingProxy

SOURCE = Path(flo.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
NAMES = {target.__name__: proxy.__name__ for target, proxy in PROXIES.items()}
"""Classes of the async client, each with the name of the one that blocks."""
ENTERING = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def stubs() -> dict[Path, str]:
    return {
        SOURCE / "__init__.pyi": public_names(),
        SOURCE / "client" / "proxies" / "nouns.pyi": blocking_nouns(),
    }


def public_names() -> str:
    names = sorted(flo.HOME_OF, key=lambda name: (flo.HOME_OF[name], _import_order(name)))
    imports = [f"from {flo.HOME_OF[name]} import {name} as {name}" for name in names]
    return _file("The public names, each with its home.", [*imports, "", "__version__: str"])


def blocking_nouns() -> str:
    classes = [_class(target) for target in PROXIES]
    names = {node.id for one in classes for node in ast.walk(one) if isinstance(node, ast.Name)}
    homes = {"BlockingProxy": BlockingProxy.__module__, "TypeVar": "typing"}
    for target in PROXIES:
        homes |= {name: home for name, home in _homes_in(target).items() if name in names}
    if "Iterator" in names:
        homes["Iterator"] = "collections.abc"
    parts = [*_imports(homes), "", 'T = TypeVar("T")', *map(ast.unparse, classes)]
    return _file(nouns.__doc__.partition("\n")[0], parts)


def _file(reason: str, parts: Iterable[str]) -> str:
    return "\n".join([f'"""{reason} Generated: `make docs`."""', *parts, ""])


def _imports(homes: Mapping[str, str]) -> Iterator[str]:
    ours = sorted({home for home in homes.values() if home.startswith("flo.")})
    for home in (*sorted({*homes.values()} - {*ours}), "", *ours):
        names = sorted((name for name in homes if homes[name] == home), key=_import_order)
        yield f"from {home} import {', '.join(names)}" if names else ""


def _import_order(name: str) -> tuple[bool, str]:
    return name.islower(), name.lower()


def _homes_in(target: type[Any]) -> dict[str, str]:
    """Where the names come from that the module of a class uses."""
    homes = {}
    for node in _module_of(target).body:
        match node:
            case ast.ImportFrom(module=str(module)):
                homes |= {alias.name: module for alias in node.names}
            case ast.AnnAssign(target=ast.Name(id=name)):
                homes[name] = target.__module__
    return homes


def _class(target: type[Any]) -> ast.ClassDef:
    """What can be seen of its blocking form: names and types, no code."""
    tree = next(
        node
        for node in _module_of(target).body
        if isinstance(node, ast.ClassDef) and node.name == target.__name__
    )
    functions = [one for one in tree.body if isinstance(one, Function)]
    body: list[ast.stmt] = []
    for function in functions:
        if function.name == "__init__":
            body += _attributes(function)
        elif function.name in ENTERING or not function.name.startswith("_"):
            body += _method(function, functions)
    base = ast.Name(BlockingProxy.__name__)
    name = NAMES[target.__name__]
    return ast.ClassDef(name=name, bases=[base], keywords=[], body=body, decorator_list=[])


def _module_of(target: type[Any]) -> ast.Module:
    module = inspect.getmodule(target)
    assert module is not None
    return ast.parse(inspect.getsource(module))


def _attributes(init: Function) -> Iterator[ast.stmt]:
    """What the constructor keeps of its arguments for everybody to see, as properties."""
    types = {one.arg: one.annotation for one in init.args.args}
    for node in init.body:
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Name(id=argument)):
                if not name.startswith("_"):
                    kind = ast.unparse(types[argument] or ast.Name("object"))
                    yield from ast.parse(f"@property\ndef {name}(self) -> {kind}: ...").body


def _method(
    function: Function,
    functions: list[Function],
) -> Iterator[ast.stmt]:
    decorators = [ast.unparse(one) for one in function.decorator_list]
    others = [one for one in functions if one.name == function.name and one is not function]
    if others and "overload" not in decorators:
        return  # the code of overloads
    arguments = _blank(function.args)
    returns = _blocking_type(function.returns)
    name = ENTERING.get(function.name, function.name)
    lines = [*(f"@{one}" for one in decorators), f"def {name}({arguments}) -> {returns}: ..."]
    yield from ast.parse("\n".join(lines)).body


def _blank(arguments: ast.arguments) -> str:
    """The arguments, with dots in place of their defaults."""
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [one and ast.Constant(...) for one in arguments.kw_defaults]
    return ast.unparse(arguments)


def _blocking_type(annotation: ast.expr | None) -> str:
    assert annotation is not None
    for node in ast.walk(annotation):
        match node:
            case ast.Subscript(value=ast.Name(id="AsyncGenerator"), slice=ast.Tuple(elts=[one, _])):
                return f"Iterator[{ast.unparse(one)}]"
            case ast.Name(id=name) if name in NAMES:
                node.id = NAMES[name]
    return ast.unparse(annotation)


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", path], check=True)
