"""Payloads that the server cannot read."""

import asyncio
import tempfile
from pathlib import Path

from flo import ActionWorker, AesCodec, EmbeddedServer, Flo
from flo.core.sealing import new_key


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(f"{folder}/data") as server:
        keys = Path(folder) / "payload.keys"
        keys.write_text(new_key())
        codec = AesCodec.from_file(keys)

        worker = ActionWorker(Flo(server.address, codec=codec))

        @worker.action("diagnose")
        def diagnose(patient: dict[str, str]) -> str:
            return f"{patient['name']} is well"

        serving = asyncio.create_task(worker.serve())
        async with Flo(server.address, codec=codec) as flo:
            await flo.actions.register("diagnose")
            print(await (await flo.actions.invoke("diagnose", {"name": "Alice"})).result())
        async with Flo(server.address) as stranger:
            run = await stranger.actions.status("diagnose-1")
            print("Alice" in repr(run.input))
        worker.stop()
        await serving


asyncio.run(main())
