"""The topology of a gateway, and drawings of it."""
