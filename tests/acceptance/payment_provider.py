"""A provider of payments: python payment_provider.py ADDRESS ACTION NAME FILE SECONDS.

It takes its time for every payment, and writes into its work log how it answered. SIGUSR1 puts it
out of order, and with it all that it has in hand; SIGUSR2 repairs it.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from flo import ActionError, ActionWorker

LEASE_MS = 10_000
CONCURRENCY = 50

address, action, name, work_log, seconds = sys.argv[1:]
worker = ActionWorker(address, worker_id=name, concurrency=CONCURRENCY)
records = os.open(work_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
is_up = True


class OutOfOrder(ActionError):
    code = "timeout"


@worker.action(action, max_retries=0, timeout_ms=LEASE_MS)
async def charge(payment: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(float(seconds))
    os.write(records, b"up\n" if is_up else b"down\n")
    if not is_up:
        raise OutOfOrder("the provider does not answer")
    return {"payment_id": f"{name}-{payment['customer_id']}", "provider": name}


def set_up(number: int, _: object) -> None:
    global is_up
    is_up = number == signal.SIGUSR2


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, set_up)
    signal.signal(signal.SIGUSR2, set_up)
    worker.run()
