"""Tidegate plugin `otel`."""
