"""What the simulated servers of queues have in common: who may connect, and the end of each connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .network import END, Connection, Endpoint

if TYPE_CHECKING:
    from .world import World

C = TypeVar("C", bound="QueueClient[Any]")
S = TypeVar("S", bound="QueueServer[Any]")


class QueueServer(Generic[C]):
    """`network.Host`, with this name. `client` makes its end of a connection."""

    def __init__(self, world: World, name: str, client: Callable[[Any], C]) -> None:
        self.world = world
        self.clients: list[C] = []
        self._name = name
        self._client = client
        world.network.hosts[name] = self

    def accept(self) -> Endpoint | str:
        """See `network.Host`."""
        if self.world.faults.lasting("queue-away", self._name) is not None:
            return "refuse"
        if self.world.faults.lasting("queue-vanish", self._name) is not None:
            return "vanish"
        client = self._client(self)
        self.clients.append(client)
        return client

    def cut(self) -> None:
        """Breaks all connections."""
        for client in list(self.clients):
            client.reset()

    def stall(self, until: float) -> None:
        """Nothing arrives on any connection until then."""
        for client in self.clients:
            if client.connection is not None:
                client.connection.stall(until)


class QueueClient(Generic[S]):
    """`network.Endpoint`: a connection of the gateway, None once it has ended."""

    def __init__(self, server: S) -> None:
        self.server = server
        self.buffer = b""
        self.connection: Connection | None = None

    def opened(self, connection: Connection) -> None:
        """See `network.Endpoint`."""
        self.connection = connection

    def received(self, data: bytes) -> None:
        """See `network.Endpoint`."""
        raise NotImplementedError

    def ended(self, how: str) -> None:
        """See `network.Endpoint`."""
        if how == END:
            self.finish()
        else:
            self.gone()

    def finish(self) -> None:
        """Ends the connection in order."""
        if self.connection is not None:
            self.connection.end()
        self.gone()

    def reset(self) -> None:
        """Breaks the connection."""
        if self.connection is not None:
            self.connection.reset()
        self.gone()

    def gone(self) -> None:
        """The connection has ended."""
        self.connection = None
        if self in self.server.clients:
            self.server.clients.remove(self)

    def send(self, data: bytes) -> None:
        """Sends bytes, if there is a connection."""
        if self.connection is not None:
            self.connection.send(data)
