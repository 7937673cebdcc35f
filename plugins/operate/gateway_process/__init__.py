"""The operating system's facts about a gateway's processes, for status and metrics, and their limits."""
