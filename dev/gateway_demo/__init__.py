"""Tidegate plugin `demo`."""
