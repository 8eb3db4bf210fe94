"""The process that holds payloads against schemas: it answers one frame with one, until its end.

    python -P -m flo.server.inside.schema_process

It gives way to the server, and cannot take more memory than a limit. Where it is left alone with a
check that takes for ever, an alarm ends it.
"""

import os
import resource
import signal
import sys
from typing import BinaryIO

import msgspec

from flo.engine.actions.schemas import verdict_of

HEAD_LENGTH = 4
READY = b"ready"
MEMORY_MAX = 2 * 1024**3
ALONE_SECONDS_MAX = 30
NICENESS = 5

_decode = msgspec.msgpack.Decoder(tuple[str, bytes]).decode


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEAD_LENGTH) + body


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    answers.write(READY)
    answers.flush()
    while len(head := requests.read(HEAD_LENGTH)) == HEAD_LENGTH:
        schema, payload = _decode(requests.read(int.from_bytes(head)))
        signal.alarm(ALONE_SECONDS_MAX)
        verdict = verdict_of(schema, payload)
        signal.alarm(0)
        answers.write(framed(msgspec.msgpack.encode(verdict)))
        answers.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    serve(sys.stdin.buffer, sys.stdout.buffer)
