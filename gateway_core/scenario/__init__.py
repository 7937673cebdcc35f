"""Scenario tests: events, subscribers that answer by script, and what is expected; offline, on a fake clock."""
