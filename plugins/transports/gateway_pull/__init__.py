"""The sink `pull`: subscribers fetch events over HTTP, each with a lease, or as a stream. And `tidegate listen`."""
