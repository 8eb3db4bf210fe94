"""A worker that does nothing, as fast as it can."""

import sys

from bench.system import ACTION
from flo import ActionContext, ActionWorker


def main() -> None:
    worker = ActionWorker(sys.argv[1], concurrency=int(sys.argv[2]))

    @worker.action(ACTION)
    async def noop(context: ActionContext) -> bytes:
        return b"{}"

    worker.run()


if __name__ == "__main__":
    main()
