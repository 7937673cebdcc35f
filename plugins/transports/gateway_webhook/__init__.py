"""Webhooks that are no CloudEvents: a POST becomes an event, with attributes from its header fields and its JSON."""
