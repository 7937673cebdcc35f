"""Sending rows through a gateway: what the data source `tidegate` does for a query that writes."""
