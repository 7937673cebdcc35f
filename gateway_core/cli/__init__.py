"""The command line, `tidegate`. Commands live in modules of their own that are imported when they run."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from ..contract.cli.exit_codes import CRASH, FAULT, INTERRUPTED, OK, START

PROGRAM = "tidegate"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits. User errors end with one clear message, never with a traceback."""
    if argv is None:
        gc.set_threshold(1_000_000)  # what is made until a gateway has started is there to stay
    args = list(sys.argv[1:] if argv is None else argv)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: else a file of ours would take its place, and get what is printed
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks; standard error does so anyway
    try:
        code = _run(args)
        sys.stdout.flush()  # a short output is written only here
    except KeyboardInterrupt:  # at any moment, also while modules are imported
        code = INTERRUPTED
    except BrokenPipeError:
        from ..contract.cli.common import discard_output

        discard_output()
        code = FAULT
    sys.exit(code)


def _run(args: list[str]) -> int:
    from ..contract.errors import TidegateError
    from .app import app, prepare_completion

    prepare_completion()
    try:
        app(args=args, prog_name=PROGRAM)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else OK if e.code is None else FAULT
    except TidegateError as e:
        return _explain(e)
    except BrokenPipeError:
        raise
    except Exception as e:
        cause = _unwrapped(e)
        return _explain(cause) if isinstance(cause, TidegateError) else _crash(cause, args)
    return OK


def _unwrapped(error: Exception) -> Exception:
    """The error without the groups that task groups wrap around it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _explain(error: Exception) -> int:
    from ..contract.errors import ConfigError, StartError
    from ..contract.options import redacted

    if isinstance(error, ConfigError):
        from ..contract.cli.common import colours
        from ..contract.faults import render

        print(render(error.faults, colours(sys.stderr)), end="", file=sys.stderr)
        return FAULT
    print(f"{PROGRAM}: {redacted(str(error))}", file=sys.stderr)
    return START if isinstance(error, StartError) else FAULT


def _crash(error: Exception, args: list[str]) -> int:
    """Reports an unexpected error: a file or folder that the system refuses, or a bug."""
    from ..contract.options import redacted

    if "debug" in args or "--log-level=debug" in args or os.environ.get("TIDEGATE_LOG_LEVEL", "").lower() == "debug":
        import traceback

        print(redacted("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        return CRASH
    if isinstance(error, ModuleNotFoundError):
        from .lazy import what_installs

        if needs := what_installs(error):
            print(f"{PROGRAM}: this {needs}", file=sys.stderr)
            return START
    if isinstance(error, OSError) and error.filename:
        print(f"{PROGRAM}: {os.fsdecode(error.filename)}: {error.strerror}", file=sys.stderr)
        return FAULT
    print(
        f"{PROGRAM}: internal error: {type(error).__name__}: {redacted(str(error))}\n"
        f"    this is a bug in {_whose(error)}; `{PROGRAM} --log-level debug …` shows where",
        file=sys.stderr,
    )
    return CRASH


def _whose(error: Exception) -> str:
    """Where the bug is: in the plugin whose code raised the error or called what did, else here."""
    from ..config.installed import plugin_with

    packages = []
    trace = error.__traceback__
    while trace is not None:
        packages.append(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        trace = trace.tb_next
    for package in reversed(packages):
        if package == __name__.partition(".")[0]:
            break
        if (plugin := plugin_with(package)) is not None:
            return plugin
    return PROGRAM
