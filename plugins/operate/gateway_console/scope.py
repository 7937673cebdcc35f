"""Which part of a topology is drawn: what a search or a name chooses, with triggers of a broker as one if many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway_inspect.graph.topology import Edge, Node, Topology

MOST_DRAWN = 12
MOST_CHOSEN = 40
MOST_OWNERS = 16


@dataclass(frozen=True, slots=True)
class Scope:
    """What the reader asked for: text that names or addresses contain, or one broker or bridge. All, if nothing."""

    search: str = ""
    broker: str = ""
    bridge: str = ""

    def __bool__(self) -> bool:
        return bool(self.search or self.broker or self.bridge)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a scope chooses of a topology."""

    topology: Topology
    owners: Mapping[str, str]
    """The broker of each broker and trigger, by ids; a bridge is its own."""
    wanted: frozenset[str]
    drawn_at_most: int

    @property
    def triggers(self) -> list[str]:
        """The names of the triggers, as in the config."""
        return [node.title for node in self._nodes("trigger") if node.id in self.wanted]

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers that exist."""
        kept = {self.owners[id] for id in self.wanted}
        return [node.title for node in self._nodes("broker") if node.id in kept and not node.missing]

    @property
    def bridges(self) -> list[str]:
        """The names of the bridges."""
        return [node.title for node in self._nodes("bridge") if node.id in self.wanted]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The triggers of each broker, by the id of the box that may stand for them all."""
        found: dict[str, list[str]] = {}
        for node in self._nodes("trigger"):
            if node.id in self.wanted:
                found.setdefault(_group(self.owners[node.id]), []).append(node.title)
        return found

    def _nodes(self, kind: str) -> list[Node]:
        return [node for node in self.topology.nodes if node.kind == kind]


def chosen(topology: Topology, scope: Scope) -> Chosen:
    """What a scope chooses."""
    owners = _owners(topology)
    nodes = {node.id: node for node in topology.nodes}
    texts = _texts(topology, nodes)
    wanted = frozenset(id for id, owner in owners.items() if _wants(scope, texts[id], owner))
    return Chosen(topology, owners, wanted, MOST_CHOSEN if scope else MOST_DRAWN)


def drawn(found: Chosen, worst: Iterable[str] = ()) -> tuple[Topology, int]:
    """What is chosen, small enough to be drawn: of many brokers and bridges those in `worst` come first, and the rest
    is only counted."""
    nodes = {node.id: node for node in found.topology.nodes}
    ranks = {found.owners.get(id, ""): -i for i, id in enumerate([*worst][::-1], 1)}
    owners = {found.owners[id] for id in found.wanted}
    order = sorted((id for id in nodes if id in owners), key=lambda id: ranks.get(id, 0))
    kept = set(order[:MOST_OWNERS])
    members = {id: [t for t in nodes if t in found.wanted and t != id and found.owners[t] == id] for id in kept}
    groups = _grouped(members, found.drawn_at_most)
    part = _part(found.topology, {id for id in found.wanted if found.owners[id] in kept} | kept)
    return _collapsed(part, groups, nodes), len(order) - len(kept)


def _group(owner: str) -> str:
    return f"group:{owner.partition(':')[2]}"


def _owners(topology: Topology) -> dict[str, str]:
    """The broker of each broker and trigger; a bridge is its own."""
    found = {node.id: node.id for node in topology.nodes if node.kind in ("broker", "bridge")}
    return found | {e.end: e.start for e in topology.edges if e.end.startswith("trigger:") and e.start in found}


def _texts(topology: Topology, nodes: dict[str, Node]) -> dict[str, str]:
    """What a search looks through, by the ids of brokers, triggers and bridges: names, filters, addresses."""
    found = {id: [node.title, *node.detail] for id, node in nodes.items()}
    for edge in topology.edges:
        start, end = nodes[edge.start], nodes[edge.end]
        if end.kind in ("sink", "dead_letter") or start.kind == "broker":
            named = [start.title] if start.kind == "broker" else [end.title, *end.detail]
            found[end.id if start.kind == "broker" else start.id] += named
        elif start.kind == "source":
            found[end.id] += [start.title, *start.detail]
    return {id: "\n".join(texts).lower() for id, texts in found.items()}


def _wants(scope: Scope, text: str, owner: str) -> bool:
    if scope.broker and owner != f"broker:{scope.broker}":
        return False
    if scope.bridge and owner != f"bridge:{scope.bridge}":
        return False
    return scope.search.lower() in text


def _grouped(members: dict[str, list[str]], most: int) -> dict[str, list[str]]:
    """The brokers whose triggers become one box, the largest first, until what is left is at most so many boxes."""
    rows = sum(max(len(ids), 1) for ids in members.values())
    found: dict[str, list[str]] = {}
    for owner, ids in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        if rows <= most or len(ids) < 3:
            break
        found[owner] = ids
        rows -= len(ids) - 1
    return found


def _part(topology: Topology, kept: set[str]) -> Topology:
    """These brokers, triggers and bridges, with what they are connected to."""
    main = {"broker", "trigger", "bridge"}
    kinds = {node.id: node.kind for node in topology.nodes}
    own = [e for e in topology.edges if all(id in kept or kinds[id] not in main for id in (e.start, e.end))]
    begun = {e.start for e in own}
    near = kept | {id for e in own for id in (e.start, e.end) if kinds[id] != "source" or id in begun}
    return Topology(
        [node for node in topology.nodes if node.id in near],
        [e for e in own if e.start in near and e.end in near],
    )


def _collapsed(part: Topology, groups: dict[str, list[str]], nodes: dict[str, Node]) -> Topology:
    """The part with each group as one box; addresses that only a group delivers to become one box too."""
    into = {id: _group(owner) for owner, ids in groups.items() for id in ids}
    users: dict[str, set[str]] = {}
    for edge in part.edges:
        if nodes[edge.end].kind in ("sink", "dead_letter"):
            users.setdefault(edge.end, set()).add(into.get(edge.start, ""))
    shared: dict[str, list[str]] = {}
    for id, groups_of in users.items():
        if len(groups_of) == 1 and (group := next(iter(groups_of))):
            shared.setdefault(f"{nodes[id].kind}s:{group.partition(':')[2]}", []).append(id)
    for name, ids in shared.items():
        if len(ids) > 1:
            into |= dict.fromkeys(ids, name)
    made: dict[str, Node] = {}
    for node in part.nodes:
        if (box := into.get(node.id)) is None:
            made[node.id] = node
        elif box not in made:
            count = sum(1 for name in into.values() if name == box)
            what = {"trigger": "triggers", "sink": "subscribers"}.get(node.kind, "dead letters")
            made[box] = Node(box, node.kind, f"{count:,} {what}")
    edges = dict.fromkeys(Edge(into.get(e.start, e.start), into.get(e.end, e.end), e.kind) for e in part.edges)
    return Topology(list(made.values()), list(edges))
