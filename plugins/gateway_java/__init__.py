"""Tidegate plugin `java`: finds a Java, fetches jars, runs a Kafka broker for local use."""
