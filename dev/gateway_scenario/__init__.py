"""Tidegate plugin `scenario`: tests of a config."""

SUFFIX = ".scenario"
"""How the names of scenario files end before `.yaml`."""
