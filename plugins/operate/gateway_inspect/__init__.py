"""Tidegate plugin `inspect`: explain, why, tap, top, graph."""
