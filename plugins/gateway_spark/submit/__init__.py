"""Spark jobs that run without the gateway's process: `tidegate spark submit`, and clusters to try it on."""
