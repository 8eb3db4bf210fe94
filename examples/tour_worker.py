from dataclasses import dataclass

from flo import ActionContext, ActionWorker, NonRetryableError

worker = ActionWorker(concurrency=10)


@dataclass
class Email:
    to: str
    subject: str


@worker.action("send-email", timeout_ms=60_000, max_retries=3)
async def send_email(context: ActionContext, email: Email) -> dict[str, str]:
    if "@" not in email.to:
        raise NonRetryableError(f"{email.to!r} is no address")  # another attempt cannot help
    print(f"attempt {context.attempt}: sending {email.subject!r} to {email.to}")
    return {"status": "sent"}


worker.run()
