"""For each server the config of a gateway that uses it, as `tidegate dev` shows it: `HOST` is the server's host and
port."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {
    "mqtt": """\
A gateway that subscribes to orders/..., and has a trigger that publishes paid ones again:

  brokers:
    default:
      ingress:
        - mqtt: {server: "HOST", topic: "orders/#"}
  triggers:
    paid:
      filter: {type: order.paid}
      subscriber: mqtt://HOST/paid/{subject}
""",
    "nats": """\
A gateway that reads a stream, and has a trigger that publishes to a subject of another one:

  brokers:
    default:
      ingress:
        - nats:
            servers: nats://HOST
            subject: orders.>
            stream: ORDERS
            create: {subjects: orders.>}
  triggers:
    paid:
      filter: {type: order.paid}
      subscriber:
        nats:
          servers: nats://HOST
          subject: billing.paid
          stream: BILLING
          create: {subjects: billing.>}
""",
    "rabbitmq": """\
A gateway that consumes a queue, and has a trigger that publishes to an exchange:

  brokers:
    default:
      ingress:
        - rabbitmq: {server: "HOST", queue: orders}
  triggers:
    paid:
      filter: {type: order.paid}
      subscriber:
        rabbitmq: {server: "HOST", exchange: shop, exchange_type: topic}
""",
    "redis": """\
A gateway that reads a stream, and has a trigger that adds to another one:

  brokers:
    default:
      ingress:
        - redis: {servers: "HOST", stream: orders}
  triggers:
    paid:
      filter: {type: order.paid}
      subscriber: redis://HOST/paid
""",
}
