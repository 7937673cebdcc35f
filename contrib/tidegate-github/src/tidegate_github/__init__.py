"""Tidegate plugin `github`."""
