"""An engine, and what runs in it."""

import pytest

from flo.wasm.engine import WasmEngine
from flo.wasm.execution import GuestCall, GuestExecutor
from flo.wasm.module import Modules
from flo.wasm.pool import Pool
from wasm.guests import Keys


@pytest.fixture
def engine():
    engine = WasmEngine()
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture
def modules(engine):
    return Modules(engine)


@pytest.fixture
def executor(engine, modules):
    return GuestExecutor(engine, modules)


@pytest.fixture
def run(executor, modules):
    """Run a guest from its bytes."""

    def run(wasm, input=b"", reader=None, **bounds):
        call = GuestCall(module=modules.compile(wasm), input=input, **bounds)
        return executor.execute(call, Keys() if reader is None else reader)

    return run


@pytest.fixture
async def pool(engine, modules):
    pool = Pool(engine, modules, running_max=4, waiting_max=256)
    pool.start()
    yield pool
    await pool.stop()
