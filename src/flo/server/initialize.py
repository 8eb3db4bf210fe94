"""Makes the administrator's token in a data folder that no server uses."""

from pathlib import Path

from flo.model.errors import Conflict
from flo.server.config import AuthMode, ServerConfig
from flo.server.server import DOOR_SHUT, Server


async def initialize(data_dir: Path) -> str:
    """The token; Conflict if there are tokens already."""
    config = ServerConfig(
        data_dir=data_dir,
        port=DOOR_SHUT,
        http_port=DOOR_SHUT,
        metrics_port=DOOR_SHUT,
        auth=AuthMode.ON,
        log_level="error",
    )
    async with Server(config) as server:
        if server.first_token is None:
            raise Conflict(
                f"there are tokens in {data_dir} already: whoever is an administrator makes others "
                "with flo token create",
                code="already_initialized",
            )
        return server.first_token
