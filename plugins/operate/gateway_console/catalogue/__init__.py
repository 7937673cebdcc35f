"""Which types of events come from where, and what their data look like: seen while somebody looks."""
