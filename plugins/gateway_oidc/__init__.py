"""Tidegate plugin `oidc`."""
