"""Listening sockets."""

from __future__ import annotations

import socket

from .listen import split_listen

_BACKLOG = 1024


def bind(listen: str, reuse_port: bool) -> list[socket.socket]:
    """Listening sockets for all addresses of a `HOST:PORT`, on one port. Raises `OSError`."""
    host, port = split_listen(listen)
    sockets: list[socket.socket] = []
    found = list(
        dict.fromkeys(socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    )
    try:
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                alone = len(found) == 1  # then `[::]` takes IPv4, too; else IPv4 has a socket of its own
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not alone)
            sock.bind((address[0], port or address[1], *address[2:]))
            port = sock.getsockname()[1]
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets
