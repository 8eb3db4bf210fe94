"""flo pipeline bridge: pipelines and the topics of FlowKit on a Kafka broker."""

import asyncio
import logging
import signal

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings


@click.command(
    "bridge",
    cls=FloCommand,
    examples=[
        "flo pipeline bridge --bootstrap 127.0.0.1:9092",
        "flo pipeline bridge --bootstrap kafka:9092 --group night-bridge",
    ],
)
@click.option("--bootstrap", required=True, metavar="ADDRESS", help="The Kafka broker: host:port.")
@click.option(
    "--stream",
    default="pipeline-events",
    show_default=True,
    help="The stream that has the events of all pipelines, unless the settings name one.",
)
@click.option(
    "--group",
    default="kafka-bridge",
    show_default=True,
    help="The name of the consumer group, here and there: it says how far the bridge is.",
)
@click.option(
    "--announce",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How often workers are announced.",
)
@pass_settings
def bridge(
    settings: GlobalSettings, bootstrap: str, stream: str, group: str, announce: float
) -> None:
    """Mirror the events of pipelines to FlowKit's topics, and take in what comes there.

    Every event is sent at least once, in order for each node. Events that come from there are
    fenced, and count once. It runs until it is stopped, and goes on where it was; it needs
    flo-runtime[kafka].
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(run_bridge(settings, bootstrap, stream, group, announce))


async def run_bridge(
    settings: GlobalSettings, bootstrap: str, stream: str, group: str, announce_s: float
) -> None:
    from flo.client.client import Flo
    from flo.worker.kafka.bridge import TOPICS, KafkaBridge
    from flo.worker.kafka.broker import KafkaBroker

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    broker = KafkaBroker(bootstrap, group, TOPICS)
    try:
        async with Flo(settings.address, **settings.client_settings()) as flo:
            bridge = KafkaBridge(flo, broker, stream=stream, group=group, announce_s=announce_s)
            await bridge.run()
    except asyncio.CancelledError:
        pass
    finally:
        await broker.close()
