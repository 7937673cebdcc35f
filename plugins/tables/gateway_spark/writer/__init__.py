"""Sending rows to a gateway: the writing side of the data source `tidegate`."""
