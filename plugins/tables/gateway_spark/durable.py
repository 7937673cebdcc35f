"""The plugin's durable names: the folders of queries in the data directory, with their checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway_core.contract.durable import DurableName, Noted

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`."""
    for name, trigger in config.triggers.items():
        if trigger.subscriber.name == "spark" and trigger.subscriber.options is not None:
            yield DurableName(
                transport="spark",
                what="checkpoint",
                where="the data directory",
                name=f"spark/{name}",
                owner=f"triggers.{name}",
                facts={"trigger": name},
                place=("triggers", name, "subscriber"),
            )


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes the folder. The table stays."""
    folder = data_dir / "spark" / str(name.facts["trigger"])
    if folder.is_dir():
        shutil.rmtree(folder)
