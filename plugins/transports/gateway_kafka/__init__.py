"""Kafka: source, sink and channel, on aiokafka, or on another client."""
