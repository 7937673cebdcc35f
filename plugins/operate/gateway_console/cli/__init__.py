"""The command that opens the console."""
