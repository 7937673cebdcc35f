"""The client side of the admin API, for commands."""
