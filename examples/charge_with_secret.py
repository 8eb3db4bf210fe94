"""A handler that is given a secret, and repeats it by mistake."""

import asyncio
import tempfile
from pathlib import Path

from flo import ActionContext, ActionWorker, Flo
from flo.core.sealing import new_key
from flo.server.config import ServerConfig
from flo.server.server import Server


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "secrets.keys"
        keys.write_text(new_key())
        config = ServerConfig(
            port=0, http_port=-1, metrics_port=-1, data_dir=Path(folder) / "data", secret_keys=keys
        )
        async with Server(config) as server, Flo(server.address) as flo:
            await flo.secrets.set("STRIPE_KEY", "sk_live_0123456789")
            await flo.actions.register("charge", secrets=["STRIPE_KEY"])
            worker = ActionWorker(server.address)

            @worker.action("charge", secrets=["STRIPE_KEY"])
            def charge(ctx: ActionContext) -> str:
                return f"charged with {ctx.secrets['STRIPE_KEY']}"

            serving = asyncio.create_task(worker.serve())
            print(await (await flo.actions.invoke("charge")).result())
            worker.stop()
            await serving


asyncio.run(main())
