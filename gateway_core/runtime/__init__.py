"""The life of a gateway: build, start, reload, status, stop."""
