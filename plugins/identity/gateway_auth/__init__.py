"""Authenticators that need nothing but files, and the command `tidegate auth`, which edits these files."""
