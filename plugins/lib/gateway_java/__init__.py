"""A library: finds a Java, downloads jars, and runs a local Kafka broker."""
