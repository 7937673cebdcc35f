"""The transport `redis`: Redis Streams as a source and a sink."""
