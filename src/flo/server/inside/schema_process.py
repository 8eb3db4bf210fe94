"""The process that holds payloads against schemas: it answers one frame with one, until its end.

    python -P -m flo.server.inside.schema_process

It gives way to the server, and cannot take more memory than a limit. A check that takes more CPU
than a payload of its length should is ended by an alarm, and the process with it.
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
CPU_SECONDS, CPU_SECONDS_PER_MIB = 0.6, 0.06
"""What a check may take: the largest payload takes 0.5 s with a schema that looks at all of it."""
NICENESS = 5
MIB = 1024**2

_decode = msgspec.msgpack.Decoder(tuple[str, bytes]).decode


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEAD_LENGTH) + body


def cpu_seconds_max(payload_length: int) -> float:
    return CPU_SECONDS + CPU_SECONDS_PER_MIB * payload_length / MIB


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    answers.write(READY)
    answers.flush()
    while len(head := requests.read(HEAD_LENGTH)) == HEAD_LENGTH:
        schema, payload = _decode(requests.read(int.from_bytes(head)))
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds_max(len(payload)))
        verdict = verdict_of(schema, payload)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(framed(msgspec.msgpack.encode(verdict)))
        answers.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    serve(sys.stdin.buffer, sys.stdout.buffer)
