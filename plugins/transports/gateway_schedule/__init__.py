"""The source `schedule`: events at planned times."""
