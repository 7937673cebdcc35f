"""The data of events: their types, given by a schema or inferred, and whether they match."""
