"""Tidegate plugin `nats`."""
