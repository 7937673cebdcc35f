"""Tidegate plugin `admin`: the admin API and the commands that use it."""
