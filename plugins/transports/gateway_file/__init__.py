"""Tidegate plugin `file`."""
