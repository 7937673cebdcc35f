"""Conformance checks for the ingress and the delivery of any broker, as the command `tidegate conformance`."""
