"""One trace, from the caller through the queue and the attempt to what the handler does."""

import asyncio

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from flo import ActionContext, ActionWorker, Flo, enable_tracing

provider = TracerProvider()
provider.add_span_processor(
    SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"{span.name}\n"))
)
tracer = provider.get_tracer("shop")
enable_tracing(provider)


async def main() -> None:
    async with Flo() as flo:
        worker = ActionWorker(flo)

        @worker.action("charge-card")
        async def charge_card(ctx: ActionContext) -> dict[str, int]:
            with tracer.start_as_current_span("ask the bank"):
                return {"charged": 7}

        serving = asyncio.ensure_future(worker.serve())
        with tracer.start_as_current_span("checkout"):
            await flo.actions.register("charge-card")
            charged = await flo.actions.invoke("charge-card", {"order": 1})
            print(await charged.result())
        worker.stop()
        await serving


asyncio.run(main())
