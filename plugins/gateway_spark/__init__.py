"""Tidegate plugin `spark`."""
