"""Records that come on stdin, one in each line.

They are taken as they come: what has arrived makes a batch, so that a slow pipe is not kept
waiting and a large file is not read into memory.
"""

from collections.abc import Iterator
from typing import BinaryIO

from flo.model.ids import check_payload
from flo.model.streams import RECORDS_PER_APPEND_MAX

READ_LENGTH_MAX = 1024 * 1024


def batches_of_lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a file without their ends, in batches that fit into one append.

    What was read after the last end of a line is kept for the next batch. At the end of the file it
    is a line too, unless there is nothing in it.
    """
    begun = b""
    while data := file.read1(READ_LENGTH_MAX):  # type: ignore[attr-defined]
        *lines, begun = (begun + data).split(b"\n")
        for start in range(0, len(lines), RECORDS_PER_APPEND_MAX):
            yield lines[start : start + RECORDS_PER_APPEND_MAX]
        check_payload(begun, "a line")
    if begun:
        yield [begun]
