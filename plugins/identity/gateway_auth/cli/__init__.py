"""`tidegate auth`."""
