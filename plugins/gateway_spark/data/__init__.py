"""The data of events: their types, from a schema or inferred, and whether they fit."""
