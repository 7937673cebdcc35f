"""The plugin `dev`: runs the servers of the transports on this machine, to try things out and for tests."""
