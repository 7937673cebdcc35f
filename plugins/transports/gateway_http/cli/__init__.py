"""`tidegate send`, and posting events from other commands."""
