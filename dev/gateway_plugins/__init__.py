"""Writes packages of plugins, and checks them: `tidegate plugin`."""
