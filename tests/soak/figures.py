"""What a soak counted: from the ledger, the tables and the course to one document."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter, defaultdict
from dataclasses import asdict
from statistics import median

from tests.soak.conductor import Course, Played
from tests.soak.faults import ALL
from tests.soak.ledger import PLACES, Account
from tests.soak.report import Figures
from tests.soak.samples import Sample
from tests.soak.tables import check_table
from tests.soak.world import World

AFTER_S = 30
"""So long after its recovery a fault may explain an event that arrives again: retries, and a group that rebalances."""
CHECKED_S = 7200
GROWTH = 10.0


def count(world: World, course: Course) -> Figures:
    """All figures. What was promised and not kept is added to `course.broken`."""
    routes, repeats = {}, Counter[str]()
    for route in world.routes:
        account = world.accounts[route.name]
        verdict = account.check(route.broker == "log")
        found = _repeats(account, course.played)
        repeats += found
        routes[route.name] = {
            "sent": account.numbered,
            "accepted": account.said_yes,
            "delivered": account.at["out"].first,
            "dead letters": account.at["dead"].first,
            "proxied": account.at["proxied"].first + account.at["dead-proxied"].first,
            "lost": verdict.missing,
            "misplaced": verdict.misplaced,
            "again": found.total(),
        }
        if verdict.missing and course.hangs:
            routes[route.name]["lost"] = 0
            routes[route.name]["open"] = verdict.missing
        elif verdict.missing:
            course.broken.append(
                f"{verdict.missing} accepted events of the route {route.name} are lost: {verdict.lost}"
            )
        if verdict.misplaced:
            course.broken.append(f"{verdict.misplaced} events of the route {route.name} are where they don't belong")
    if unexplained := repeats["no fault"]:
        course.broken.append(f"{unexplained} events arrived again, and no fault explains it")
    for name, what in (
        ("wrong", "arrived altered, or from nowhere"),
        ("refused", "were refused though they are valid"),
    ):
        file = world.ledger / f"{name}.jsonl"
        if rows := file.read_text().splitlines() if file.exists() else []:
            times = "once" if len(rows) == 1 else f"{len(rows)} times"
            course.broken.append(f"events {what}, {times}: {rows[0][:300]}")
    tables = {}
    for table in world.tables:
        if course.hangs or course.drained_s == 0:
            continue
        checked = check_table(world, table)
        tables[table] = asdict(checked)
        if not checked.kept:
            course.broken.append(f"the table of {table} is not exactly once: {tables[table]}")
    memory = _growth(course.samples)
    if memory and course.seconds >= CHECKED_S and memory["percent"] > GROWTH:
        course.broken.append(f"the memory of the gateway that is never killed grew by {memory['percent']} %")
    return {
        "seconds": round(course.seconds),
        "drained_s": round(course.drained_s, 1),
        "command": world.options.command,
        "seed": world.options.seed,
        "rate": world.options.rate,
        "every_s": world.options.every_s,
        "machine": f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "disk": world.disk.kind,
        "events": sum(route["accepted"] for route in routes.values()),
        "lost": sum(route["lost"] for route in routes.values()),
        "faults": len(course.played),
        "routes": routes,
        "tables": tables,
        "by_fault": _by_fault(course, repeats),
        "sent_again": sum(a.at[place].sent_again for a in world.accounts.values() for place in PLACES),
        "repeats": dict(repeats),
        "starts": _starts(world),
        "memory": memory,
        "skipped": dict(course.skipped),
        "broken": course.broken,
        "interrupted": course.interrupted,
    }


def _repeats(account: Account, played: list[Played]) -> Counter[str]:
    """Arrivals beyond the first by the fault that explains them: the last that began before, and was not long over."""
    repeating = {fault.name for fault in ALL if fault.repeats}
    capable = sorted((p for p in played if p.name in repeating), key=lambda p: p.begin)
    found: Counter[str] = Counter()
    last = int(max((p.recovered or p.healed for p in played), default=0)) + 100_000
    for place in PLACES:
        column = account.at[place].again
        raw = column.map
        # most seconds have none: look for bytes that are not zero
        for second in range(min(last, len(raw) // 4)):
            if raw[second * 4 : second * 4 + 4] == b"\0\0\0\0":
                continue
            reason = next(
                (p.name for p in reversed(capable) if p.begin - 1 <= second <= p.recovered + AFTER_S), "no fault"
            )
            found[reason] += column.get(second)
    return found


def _by_fault(course: Course, repeats: Counter[str]) -> dict[str, dict[str, float]]:
    spent: dict[str, list[float]] = defaultdict(list)
    for played in course.played:
        spent[played.name].append(played.recovery_s)
    return {
        fault.name: {
            "times": len(spent[fault.name]),
            "again": repeats[fault.name],
            **(_spent(spent[fault.name]) if fault.hard else {}),
        }
        for fault in ALL
        if fault.name in spent
    }


def _starts(world: World) -> dict[str, dict[str, float]]:
    by_part: dict[str, list[float]] = defaultdict(list)
    for _, part, seconds in world.starts:
        by_part[part].append(seconds)
    return {part: {"times": len(some), **_spent(some)} for part, some in by_part.items()}


def _spent(seconds: list[float]) -> dict[str, float]:
    return {"median_s": round(median(seconds), 2), "most_s": round(max(seconds), 2)}


def _growth(samples: list[Sample]) -> dict[str, float]:
    """Memory of `steady` at the end of the first hour (of the first third in shorter runs) and at the end."""
    points = [(s["t"], s["steady: MB"]) for s in samples if "steady: MB" in s]
    if len(points) < 20:
        return {}
    end = points[-1][0]
    begin = 3600.0 if end >= CHECKED_S else end / 3
    width = max(60.0, end / 20)
    early = median([v for t, v in points if begin - width <= t <= begin] or [points[0][1]])
    late = median([v for t, v in points if t >= end - width])
    return {"early_mb": round(early, 1), "late_mb": round(late, 1), "percent": round((late / early - 1) * 100, 1)}


def write(figures: Figures, course: Course, world: World) -> None:
    """`figures.json`, and all faults and samples beside it."""
    folder = world.folder
    (folder / "figures.json").write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    with (folder / "faults.csv").open("w") as file:
        file.write("begin_s,healed_s,recovered_s,fault,detail\n")
        for p in sorted(course.played, key=lambda p: p.begin):
            file.write(f'{p.begin:.2f},{p.healed:.2f},{p.recovered:.2f},"{p.name}","{p.detail}"\n')
    with (folder / "samples.jsonl").open("w") as file:
        file.writelines(json.dumps(one) + "\n" for one in course.samples)
