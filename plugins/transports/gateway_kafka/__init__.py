"""Kafka: source, sink and channel, on aiokafka or confluent-kafka."""
