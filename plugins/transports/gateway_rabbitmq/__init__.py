"""The transport `rabbitmq`: a source and a sink for AMQP 0-9-1."""
