"""`tidegate dlq`."""
