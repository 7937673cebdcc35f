"""The command `tidegate audit`."""
