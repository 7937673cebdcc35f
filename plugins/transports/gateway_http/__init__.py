"""Tidegate plugin `http`."""
