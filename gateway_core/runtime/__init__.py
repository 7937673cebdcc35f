"""The life of a gateway: build, start, reload, workers, status, stop."""
