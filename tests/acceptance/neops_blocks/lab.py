"""Blocks for the published neops worker, which is not ours: they write down what they are asked."""

import asyncio
import json
import os
from pathlib import Path

from neops_worker_sdk.function_block.function_block import (
    FunctionBlock,
    FunctionBlockAcquireResult,
    FunctionBlockParams,
    FunctionBlockResult,
    FunctionBlockResultData,
    FunctionBlockRollbackResult,
)
from neops_worker_sdk.registry.decorator import register_function_block
from neops_worker_sdk.registry.registration import Registration

NOTES = Path(os.environ["NOTES"])


def note(*what):
    with NOTES.open("a") as file:
        file.write(json.dumps(what) + "\n")


class LabParams(FunctionBlockParams):
    text: str = ""
    seconds: float = 0


class LabResult(FunctionBlockResultData):
    output: str


class Lab(FunctionBlock[LabParams, LabResult]):
    name = ""

    async def acquire(self, params):
        note("acquire", self.name)
        return FunctionBlockAcquireResult(message="nothing", success=True, acquires=None)

    async def run(self, params, context):
        note("execute", self.name, params.text)
        await asyncio.sleep(params.seconds)
        if self.name == "broken":
            raise RuntimeError("boom")
        if context.device is not None:
            context.device.model = params.text
        note("executed", self.name, params.text)
        data = LabResult(output=params.text * 2)
        return FunctionBlockResult(message="done", success=True, data=data)

    async def rollback(self, params, context, result_from_failed=None):
        note("rollback", self.name, params.text)
        return FunctionBlockRollbackResult(message="undone", success=True)


def lab_block(name, **settings):
    registration = Registration(
        name=name,
        description=name,
        package="lab.example",
        fb_type="execute",
        param_cls=LabParams,
        result_cls=LabResult,
        **{"run_on": "global", **settings},
    )
    return register_function_block(registration)(type(name.title(), (Lab,), {"name": name}))


Echo = lab_block("echo", reversible=True)
Broken = lab_block("broken", is_pure=True)
Model = lab_block("set_model", run_on="device", reversible=True)
