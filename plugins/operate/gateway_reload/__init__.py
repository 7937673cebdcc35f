"""Tidegate plugin `reload`: changes a running gateway to another config, and reads its files again."""
