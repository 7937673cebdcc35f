"""The topology of a gateway: what is connected to what, and drawings of it."""
