"""The commands `tidegate replay` and `tidegate rewind`."""
