"""Tidegate plugin `fn`: the Fn Project's CloudEvents protocol for functions."""
