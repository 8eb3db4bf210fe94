"""How blocks are declared."""

from dataclasses import dataclass
from typing import Any

import pytest

from flo.model.blocks.blocks import BlockDeclaration, BlockType, OnWorkerLost, RunOn
from flo.model.errors import Invalid
from flo.worker.blocks.block import REGISTRY, Block, BlockRegistry, block, declaration_of
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.values import BlockResult, Params, Result


class VlanParams(Params):
    vlan: int
    name: str = "office"


class VlanResult(Result):
    previous: int


class SetVlan(Block[VlanParams, VlanResult]):
    """Set the VLAN of a port.

    It remembers which one it was.
    """

    async def run(self, params: VlanParams, ctx: BlockContext) -> VlanResult:
        return VlanResult(previous=1)


def spec_of(declared: Any) -> BlockDeclaration:
    return declaration_of(declared).spec


def test_a_class_is_called_as_it_is_and_says_what_its_docstring_says() -> None:
    spec = spec_of(block(package="test.network", version="1.2.3")(SetVlan))

    assert declaration_of(SetVlan).id == "test.network/set_vlan:1.2.3"
    assert spec.description == "Set the VLAN of a port."
    assert spec.help.endswith("It remembers which one it was.")


def test_its_types_are_those_of_the_class_and_their_fields_are_on_top_of_the_schema() -> None:
    spec = spec_of(block(package="test.types")(SetVlan))

    assert spec.parameter_schema == {
        "type": "object",
        "properties": {
            "vlan": {"type": "integer"},
            "name": {"type": "string", "default": "office"},
        },
        "required": ["vlan"],
    }
    assert spec.result_schema == {
        "type": "object",
        "properties": {"previous": {"type": "integer"}},
        "required": ["previous"],
    }


def test_a_type_that_contains_another_keeps_the_definition_of_that_one() -> None:
    @dataclass
    class Port:
        number: int

    @dataclass
    class PortParams:
        port: Port

    @block(package="test.nested")
    async def nested(params: PortParams) -> None: ...

    schema = spec_of(nested).parameter_schema
    assert schema is not None
    assert schema["properties"] == {"port": {"$ref": "#/$defs/Port"}}
    assert list(schema["$defs"]) == ["Port"]


def test_a_function_is_a_block_and_its_types_are_its_annotations() -> None:
    @block(package="test.function", pure=True)
    async def ping(params: VlanParams, ctx: BlockContext) -> BlockResult[VlanResult] | None:
        return None

    spec = spec_of(ping)
    assert (spec.name, spec.pure, spec.reversible) == ("ping", True, False)
    assert spec.parameter_schema == declaration_of(SetVlan).spec.parameter_schema
    assert spec.result_schema == declaration_of(SetVlan).spec.result_schema


def test_a_block_without_annotations_takes_anything() -> None:
    @block(package="test.anything")
    async def anything(params):  # type: ignore[no-untyped-def]
        return params

    assert spec_of(anything).parameter_schema is None
    assert spec_of(anything).result_schema is None


def test_a_pydantic_model_is_known_by_its_methods() -> None:
    class Model:
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:
            return {"title": "Model", "type": "object", "required": ["x"]}

        @classmethod
        def model_validate(cls, value: Any) -> "Model":
            return cls()

    @block(package="test.pydantic")
    async def modelled(params: Model) -> None: ...

    assert spec_of(modelled).parameter_schema == {"type": "object", "required": ["x"]}
    assert isinstance(declaration_of(modelled).params.read({"x": 1}), Model)


def test_a_block_with_a_rollback_is_reversible_unless_it_says_otherwise() -> None:
    class Undoing(SetVlan):
        async def rollback(self, params: Any, ctx: BlockContext, result: Any) -> None: ...

    assert spec_of(block(package="test.undo")(Undoing)).reversible
    assert not spec_of(block(package="test.undo", version="2.0.0")(SetVlan)).reversible
    assert not spec_of(
        block(package="test.undo", version="3.0.0", reversible=False)(Undoing)
    ).reversible


def test_what_is_said_in_the_decorator_is_in_the_declaration() -> None:
    spec = spec_of(
        block(
            package="test.said",
            name="other",
            run_on="device",
            type="check",
            idempotent=True,
            timeout=1.5,
            on_worker_lost="fail",
            deprecated=True,
            description="short",
        )(SetVlan)
    )

    assert spec.name == "other"
    assert (spec.run_on, spec.type) == (RunOn.DEVICE, BlockType.CHECK)
    assert (spec.timeout_ms, spec.on_worker_lost) == (1_500, OnWorkerLost.FAIL)
    assert (spec.idempotent, spec.deprecated, spec.description) == (True, True, "short")


@pytest.mark.parametrize(
    "wrong",
    [{"run_on": "moon"}, {"version": "1.2"}, {"package": "a/b"}, {"timeout": -1}],
)
def test_what_cannot_be_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="expected"):
        block(**{"package": "test.wrong", **wrong})(SetVlan)


def test_a_class_must_be_a_block_and_have_a_run() -> None:
    with pytest.raises(Invalid, match="inherits from Block"):
        block(package="test.plain")(type("Plain", (), {}))
    with pytest.raises(Invalid, match="have a method `run`"):
        block(package="test.plain")(type("Plain", (Block,), {}))


def test_what_was_not_declared_is_no_block() -> None:
    class Child(SetVlan):
        """Inherits a declaration, and has none."""

    with pytest.raises(Invalid, match="with @block"):
        declaration_of(Child)


def test_two_blocks_cannot_have_one_id_but_one_may_be_declared_again() -> None:
    registry = BlockRegistry()
    declared = declaration_of(block(package="test.twice")(SetVlan))
    registry.add(declared)
    registry.add(declared)

    with pytest.raises(Invalid, match=r"'test.twice/set_vlan:1.0.0' is declared twice: SetVlan in"):
        registry.add(declared._replace(place=("elsewhere.py", "SetVlan")))
    assert declared in REGISTRY.all()
