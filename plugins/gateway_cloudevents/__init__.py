"""Tidegate plugin `cloudevents`."""
