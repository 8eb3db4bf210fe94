"""Log lines in which text of others cannot pass for a line of its own."""

import logging

from flo.core.printable import printable


class PrintableFormatter(logging.Formatter):
    """Control characters are spelt out; all lines of a record but the first are indented."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\n    ")
