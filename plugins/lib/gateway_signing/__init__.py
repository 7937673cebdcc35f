"""Signatures with shared secrets, for those who sign and those who check: schemes, and keys from files that change."""
