"""The client `confluent` for Kafka, on confluent-kafka (librdkafka)."""
