"""Definitions that are deployed anew whenever their files are saved, each time as a new version.

    version: "1.2"  ──▸  1.2-dev.20260314100000

So runs that are under way keep what they began with, and a start takes what was saved last.
"""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from flo.cli.app.say import say
from flo.cli.workflow.options import Document, read_document
from flo.cli.workflow.problems import print_problems, refused
from flo.model.errors import FloError, Invalid, NotFound

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

_VERSION = re.compile(r"""^(\s*"?version"?\s*:\s*)["']?([^"'\s,#]+)["']?""", re.MULTILINE)
_MARK = "-dev."


class SavedDocument:
    """One file, and when it was last deployed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changed_ns = 0

    def deploy_if_changed(self, flo: "BlockingFlo") -> None:
        try:
            changed_ns = self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return  # an editor may be writing it
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            self._deploy(flo)

    def _deploy(self, flo: "BlockingFlo") -> None:
        """What is wrong with it is shown; it is tried again when it is saved again."""
        document = read_document(str(self.path))
        try:
            if _is_deployed(flo, document.text):
                say(f"Unchanged: {self.path}")
                return
            deployed = flo.workflows.create(development_version(document.text, _now()))
        except Invalid as error:
            say(f"Error: {refused(error, document).message}", err=True)
        except FloError as error:
            say(f"Error: {self.path}: {error.message}", err=True)
        else:
            print_problems(deployed.problems, Document(document.text, document.name))
            say(f"Deployed: {deployed.name} {deployed.version}")


def development_version(text: str, number: str) -> str:
    """The same definition under a version of its own; one without a version stays as it is."""
    return _VERSION.sub(lambda found: f'{found[1]}"{found[2]}{_MARK}{number}"', text, count=1)


def _is_deployed(flo: "BlockingFlo", text: str) -> bool:
    """Whether the latest version that is deployed is this text."""
    name = re.search(r"""^\s*"?name"?\s*:\s*["']?([^"'\s,#]+)""", text, re.MULTILINE)
    if name is None:
        return False
    try:
        latest = flo.workflows.get(name[1])
    except NotFound:
        return False
    number = latest.version.partition(_MARK)[2]
    return bool(number) and latest.text == development_version(text, number)


def _now() -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime())
