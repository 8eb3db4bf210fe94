"""Generates a report in many steps, in a thread, and ends when nobody wants it any more."""

from flo import ActionContext, ActionWorker

worker = ActionWorker()


@worker.action("generate-report", timeout_ms=60_000)
def generate_report(ctx: ActionContext) -> dict[str, int]:
    lines = 0
    for step in range(ctx.json()["steps"]):
        lines += process_step(step)
        if (step + 1) % 3 == 0:
            ctx.touch(30_000)  # extend by 30 s; in a plain function it has happened on return
        ctx.raise_if_cancelled()
    return {"lines": lines}


def process_step(step: int) -> int:
    return 10 * (step + 1)


if __name__ == "__main__":
    worker.run()
