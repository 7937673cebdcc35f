"""Tidegate plugin `console`."""
