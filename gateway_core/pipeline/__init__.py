"""The path of an event: source, broker, trigger, sink."""
