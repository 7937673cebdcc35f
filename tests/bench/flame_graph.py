"""Draws flame graphs: an SVG without scripts, from the folded stacks that `py-spy record --format raw` writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

WIDTH, ROW, LETTER = 1200, 17, 6.8
SMALLEST = 0.002
"""Frames with a smaller share of the samples are left out."""
COLOURS = {"interpreted": "#f4b266", "compiled": "#8fce9b", "library": "#a9c5e8", "native": "#d3d3d3"}
_FRAME = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::\d+)?\)")
_COMPILED = re.compile(r"CPy(?:(?:Def|Py|Gen)_|Dunder_am_send)")
_BEFORE_THE_WORK = {"asyncio.runners.Runner.run", "threading.Thread._bootstrap_inner", "threading.Thread.run"}
_WAITING = {"PyThread_acquire_lock_timed", "take_gil", "epoll_pwait", "pthread_cond_timedwait", "pthread_cond_wait"}


@dataclass
class Frame:
    """A function below another one; `samples` are its own and those of all below it."""

    samples: int = 0
    below: dict[tuple[str, str], Frame] = field(default_factory=dict)


def function(frame: str) -> tuple[str, str] | None:
    """The name that is shown and the kind, of a frame as py-spy writes it; None if it says nothing."""
    match = _FRAME.fullmatch(frame)
    name, file = (match["name"], match["file"]) if match else (frame, "")
    if name.startswith(("0x", "<frozen")) or file.endswith(".h"):
        return None
    if "tidegate__mypyc" in file:
        return _COMPILED.sub("", name, count=1).replace("___", "."), "compiled"
    if not file.endswith(".py"):
        return name, "native"
    module = module_name(file)
    return f"{module}.{name}", "interpreted" if module.startswith("gateway_") else "library"


def module_name(file: str) -> str:
    """The module of a file, without the folders that lead to it."""
    for folder in ("/site-packages/", "/plugins/"):
        file = file.rpartition(folder)[2]
    at = re.search(r"gateway_\w+/", file)
    file = file[at.start() :] if at else "/".join(file.split("/")[-2:])
    return file.removesuffix(".py").removesuffix("/__init__").strip("/").replace("/", ".")


def tree(stacks: Iterable[str]) -> Frame:
    """All stacks that don't wait, as one tree. What leads to the event loop or to a thread's work is left out, and so
    is native code that calls back into Python or compiled code."""
    root = Frame()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        frames = [known for frame in stack.split(";") if (known := function(frame))]
        if not frames or frames[-1][0] in _WAITING:
            continue
        first = 1 + max((n for n, (name, _) in enumerate(frames) if name in _BEFORE_THE_WORK), default=-1)
        at = root
        at.samples += int(count)
        for frame in _shown(frames[first:]):
            at = at.below.setdefault(frame, Frame())
            at.samples += int(count)
    return root


def _shown(frames: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of native frames only the last, and a compiled function once: its wrapper for Python has its name."""
    kept = [frame for n, frame in enumerate(frames) if frame[1] != "native" or n == len(frames) - 1]
    return [frame for frame, before in zip(kept, [None, *kept], strict=False) if frame != before]


def svg(title: str, graphs: dict[str, Frame]) -> str:
    """One picture of several graphs, one below the other, each by its own title."""
    parts: list[str] = []
    top = 2 * ROW
    for name, root in graphs.items():
        boxes = list(_boxes(root, 0.0, 0, max(root.samples, 1)))
        own = Counter[str]()
        _add_own(root, "", own)
        shares = ", ".join(f"{100 * own[kind] / max(root.samples, 1):.0f} % {kind}" for kind in COLOURS if own[kind])
        parts.append(_text(4, top + ROW - 5, f"{name} ({root.samples:,} samples: {shares})", bold=True))
        base = top + ROW * (2 + max((depth for _, _, depth, _, _ in boxes), default=0))
        for left, share, depth, (label, kind), samples in boxes:
            x, y, width = left * WIDTH, base - depth * ROW, share * WIDTH
            tip = f"{escape(label)}: {100 * samples / root.samples:.1f} %"
            parts.append(
                f'<g><title>{tip}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" '
                f'fill="{COLOURS[kind]}" stroke="#fff" stroke-width=".5"/>{_fitted(x, y, width, label)}</g>'
            )
        top = base + 2 * ROW
    legend = "".join(
        f'<rect x="{420 + 130 * n}" y="8" width="12" height="12" fill="{colour}"/>{_text(438 + 130 * n, 18, kind)}'
        for n, (kind, colour) in enumerate(COLOURS.items())
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="monospace" font-size="11">'
        f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>'
    )
    return head + _text(4, 18, title, bold=True) + legend + "\n".join(parts) + "</svg>\n"


def _add_own(frame: Frame, kind: str, own: Counter[str]) -> None:
    own[kind] += frame.samples - sum(below.samples for below in frame.below.values())
    for (_, of), below in frame.below.items():
        _add_own(below, of, own)


Box = tuple[float, float, int, tuple[str, str], int]


def _boxes(frame: Frame, left: float, depth: int, total: int) -> Iterable[Box]:
    # by class and function: compiled ones, whose package is not known, stand in the same order
    for function, below in sorted(frame.below.items(), key=lambda item: item[0][0].split(".")[-2:]):
        share = below.samples / total
        if share >= SMALLEST:
            yield left, share, depth, function, below.samples
            yield from _boxes(below, left, depth + 1, total)
        left += share


def _fitted(x: float, y: float, width: float, label: str) -> str:
    """The label as far as it fits, its end rather than its beginning: that is the function."""
    letters = int((width - 4) / LETTER)
    if letters < 3:
        return ""
    return _text(round(x + 2, 1), y + ROW - 5, label if len(label) <= letters else "…" + label[1 - letters :])


def _text(x: float, y: float, words: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}"{weight}>{escape(words)}</text>'
