"""CloudEvents SQL as a filter."""
