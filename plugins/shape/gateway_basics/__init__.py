"""Tidegate plugin `basics`."""
