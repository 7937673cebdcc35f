"""Tidegate plugin `deadletter`."""
