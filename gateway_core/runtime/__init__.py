"""The life of a gateway: build, start, status, stop."""
