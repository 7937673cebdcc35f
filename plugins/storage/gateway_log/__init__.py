"""Tidegate plugin `log`."""
