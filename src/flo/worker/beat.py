"""A sign of life from a thread, while the event loop of a worker is blocked and cannot ping."""

import logging
import socket

from flo.client.session.transport import parse_address
from flo.model.errors import FloError
from flo.model.ids import Namespace, WorkerId
from flo.model.workers import Heartbeat
from flo.wire.connection import ClientEnd
from flo.wire.opcodes import FORM_OF

TIMEOUT_S = 3.0
READ_LENGTH_MAX = 65_536

_logger = logging.getLogger("flo.worker")


def beat(address: str, namespace: Namespace, worker_id: WorkerId, load: int) -> bool:
    """Whether the server has answered a heartbeat, on a connection of its own."""
    heartbeat = Heartbeat(worker_id=worker_id, namespace=namespace, current_load=load)
    end = ClientEnd("flo-beat")
    _, hello = end.hello()
    asked, frame = end.request(FORM_OF[Heartbeat], [heartbeat])
    try:
        with socket.create_connection(parse_address(address), timeout=TIMEOUT_S) as connection:
            connection.sendall(hello + frame)
            while data := connection.recv(READ_LENGTH_MAX):
                if any(request_id == asked for request_id, _ in end.receive(data)):
                    return True
    except (OSError, FloError) as error:
        _logger.debug("worker %s: no heartbeat: %s", worker_id, error)
    return False
