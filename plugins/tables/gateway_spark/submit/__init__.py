"""Spark jobs outside of the gateway's process: `tidegate spark submit`, and a local cluster to try it."""
