"""aiokafka's private names: all in one folder, all in one table, and as that expects."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import aiokafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as Builder
from aiokafka.structs import TopicPartition
from gateway_kafka.aio.private.names import KNOWN_VERSIONS, NAMES, PrivateName

from tests.tree import PLUGINS, ROOT

PLUGIN = PLUGINS["gateway_kafka"]
FENCE = PLUGIN / "aio" / "private"
PUBLIC = {"aiokafka", "aiokafka.abc", "aiokafka.admin", "aiokafka.errors", "aiokafka.helpers", "aiokafka.structs"}
OURS = {"found._replace"}  # a NamedTuple's


def private_uses(code: str) -> Iterator[str]:
    """The names in a file that aiokafka does not make public: attributes of others with an underscore, and what comes
    from its modules."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls" | "KafkaError")):
                continue
            case ast.Attribute(attr=name) if _is_private(name):
                if ast.unparse(node) not in OURS:
                    yield name
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "aiokafka":
                yield from (one.name for one in names if module not in PUBLIC or _is_private(one.name))
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.startswith("aiokafka.") and one.name not in PUBLIC)
            case ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                if _is_private(name):
                    yield name
            case ast.Call(func=ast.Name(id="rebind"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


@pytest.mark.parametrize(
    "code",
    [
        "consumer._client.send()",
        "await self._consumer._coordinator.commit()",
        "from aiokafka.conn import create_conn",
        "import aiokafka.client",
        "getattr(producer, '_sender')",
        "from aiokafka import _private",
    ],
)
def test_the_search_finds_private_uses(code: str) -> None:
    assert list(private_uses(code if "await" not in code else f"async def f(self):\n    {code}"))


@pytest.mark.slow
def test_private_names_are_used_in_one_folder_only() -> None:
    outside = {
        f"{file.relative_to(PLUGIN)}: {name}"
        for file in PLUGIN.rglob("*.py")
        if not file.is_relative_to(FENCE)
        for name in private_uses(file.read_text(encoding="utf-8"))
    }
    others = {
        f"{file}: aiokafka"
        for name, folder in PLUGINS.items()
        if name != "gateway_kafka"
        for file in folder.rglob("*.py")
        if "import aiokafka" in (code := file.read_text(encoding="utf-8")) or "from aiokafka" in code
    }
    assert outside | others == set()


def test_each_name_that_the_folder_uses_is_in_the_table_and_each_in_the_table_is_used() -> None:
    used = {(name, file.stem) for file in FENCE.glob("*.py") for name in private_uses(file.read_text(encoding="utf-8"))}
    listed = {(one.name, file) for one in NAMES for file in one.files}
    assert used - listed == set()
    for name, file in listed - used:  # names without an underscore, of objects that are not public
        assert f".{name}" in (FENCE / f"{file}.py").read_text(encoding="utf-8"), (name, file)


def test_the_version_that_is_installed_is_known() -> None:
    assert aiokafka.__version__.startswith(KNOWN_VERSIONS)


def _owner(one: PrivateName) -> Any:
    module, _, name = one.owner.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


@pytest.mark.anyio
@pytest.mark.parametrize("one", NAMES, ids=lambda one: f"{one.owner}.{one.name}")
async def test_a_private_name_is_what_the_folder_expects(one: PrivateName) -> None:
    owner = _owner(one)
    found = getattr(owner, one.name, None)
    if isinstance(found, property):
        assert one.shape == "property"
    elif one.shape == "value":
        assert found is not None
    elif callable(found):
        parameters = list(inspect.signature(found).parameters)
        assert ", ".join(parameters[1:] if parameters[:1] == ["self"] else parameters) == one.shape
    else:
        made, close = await _instance(owner)
        try:
            if f"{one.owner}.{one.name}".endswith(("AIOKafkaConsumer._coordinator", "AIOKafkaConsumer._fetcher")):
                assert getattr(made, one.name) is None  # until it has started
                assert f"self.{one.name} = {one.shape}(" in inspect.getsource(owner)
            else:
                assert type(getattr(made, one.name)).__name__ == one.shape
        finally:
            await close()


async def _instance(owner: type) -> tuple[Any, Any]:
    """An object of one of aiokafka's classes, and what closes it."""
    producer: Any = AIOKafkaProducer(enable_idempotence=True)
    consumer: Any = AIOKafkaConsumer()

    async def close() -> None:
        await producer.stop()
        await consumer.stop()

    sender, accumulator = producer._sender, producer._message_accumulator
    partition = TopicPartition("t", 0)
    match owner.__name__:
        case "AIOKafkaProducer":
            return producer, close
        case "AIOKafkaConsumer":
            return consumer, close
        case "AIOKafkaClient":
            return producer.client, close
        case "Sender":
            return sender, close
        case "MessageAccumulator":
            return accumulator, close
        case "MessageBatch":
            return owner(partition, producer.create_batch(), 1.0, 0.0), close
        case "SendProduceReqHandler":
            return owner(sender, {}), close
        case "AIOKafkaConnection":
            return owner("127.0.0.1", 1), close
        case "GroupCoordinator":
            coordinator = owner(consumer._client, consumer._subscription, group_id="g")

            async def close_both() -> None:
                await coordinator.close()
                await close()

            return coordinator, close_both
        case "_MemoryRecordsPy":
            return owner(_batch()), close
        case "_DefaultRecordBatchPy":
            return owner(bytearray(_batch())), close
    raise AssertionError(f"no way to make a {owner.__name__}")


def _batch() -> bytes:
    batch = Builder(2, 0, 0, -1, -1, -1, 10_000)
    batch.append(0, timestamp=0, key=None, value=b"v", headers=[])
    return bytes(batch.build())


def test_the_folder_has_a_page() -> None:
    page = ROOT / "docs/discussion/aiokafka.md"
    text = page.read_text(encoding="utf-8")
    assert [one.name for one in NAMES if one.name.startswith("_") and f"`{one.name}`" not in text] == []
    assert all(f"{version}x" in text for version in KNOWN_VERSIONS)
