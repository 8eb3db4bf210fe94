import logging

from flo.core.log_lines import PrintableFormatter

FORMATTER = PrintableFormatter("%(levelname)s %(message)s")


def record(message, error=None):
    exc_info = (type(error), error, None) if error is not None else None
    return logging.LogRecord("flo", logging.INFO, "", 0, message, None, exc_info)


def test_text_of_others_cannot_pass_for_a_line_of_its_own():
    line = FORMATTER.format(record("it failed: x\nINFO all is well\x1b[2J"))

    assert line == r"INFO it failed: x" + "\n    " + r"INFO all is well\x1b[2J"


def test_nor_can_that_of_an_error():
    line = FORMATTER.format(record("it failed", ValueError("x\nINFO all is well\x07")))

    assert line == "INFO it failed\n    ValueError: x\n    INFO all is well\\x07"
