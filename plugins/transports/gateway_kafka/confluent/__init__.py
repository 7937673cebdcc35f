"""The Kafka clients on confluent-kafka (librdkafka)."""
