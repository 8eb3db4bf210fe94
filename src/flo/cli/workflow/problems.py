"""What is wrong with a definition, as people see it: a caret under each place.

[E201] error: Invalid transition target 'shp' from step 'charge' at 'steps.charge.transitions'
  order.yaml:14:16
   14 |       success: shp
      |                ^
  did you mean 'ship'?

FAILED: 1 error(s), 0 warning(s)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flo.cli.app.errors import REFUSED
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import show
from flo.cli.app.say import say
from flo.cli.workflow.options import Document
from flo.core.printable import printable
from flo.model.errors import Invalid

if TYPE_CHECKING:
    from flo.workflow.document.problem import Problem


def show_validation(
    settings: GlobalSettings, document: Document, *, strict: bool, asks_server: bool = False
) -> None:
    """Show all problems of a document; exit if there are errors among them."""
    from flo.workflow.document.problem import Problem
    from flo.workflow.document.read import read, strictly

    reading = read(document.text)
    definition, problems = strictly(reading) if strict else reading
    if asks_server:
        with settings.connect() as flo:
            found = flo.workflows.validate(document.text, strict=strict).problems
        problems = tuple(msgspec.convert(found, list[Problem]))
    is_valid = definition is not None
    value = {
        "file": document.name,
        "valid": is_valid,
        "name": definition.name if definition is not None else None,
        "version": definition.version if definition is not None else None,
        "problems": list(problems),
    }
    parts = [problems_text(problems, document)] if problems else []
    if definition is not None:
        parts.insert(0, f"OK    Parsed workflow {definition.name!r} v{definition.version}")
    parts.append(_verdict(is_valid, problems))
    text = printable("\n\n".join(parts) if problems else "\n".join(parts))
    show(settings.format, value, text=text, raw="valid" if is_valid else "invalid")
    if not is_valid:
        raise click.exceptions.Exit(REFUSED)


def refused(error: Invalid, document: Document) -> Invalid:
    """Print on stderr what is wrong with a definition; return the error to raise."""
    from flo.workflow.document.problem import Problem
    from flo.workflow.document.report import summary

    found = error.details.get("problems")
    if not found:
        return error
    print_problems(found, document)
    count = summary(msgspec.convert(found, list[Problem])).removeprefix("Total: ")
    return Invalid(f"{document.name}: {count}", code=error.code, details=error.details)


def print_problems(found: list[dict[str, Any]], document: Document) -> None:
    """Print on stderr what the server has found."""
    from flo.workflow.document.problem import Problem

    if found:
        problems = msgspec.convert(found, list[Problem])
        say(problems_text(problems, document), err=True)


def problems_text(problems: "Sequence[Problem]", document: Document) -> str:
    """One paragraph for each."""
    from flo.workflow.document.report import report, summary

    whole = report(problems, document.text, document.name)
    return whole.removesuffix(summary(problems)).rstrip()


def _verdict(is_valid: bool, problems: "Sequence[Problem]") -> str:
    from flo.workflow.document.report import summary

    return f"{'PASSED' if is_valid else 'FAILED'}: {summary(problems).removeprefix('Total: ')}"
