"""Replays past events of a channel to one trigger, and sets triggers back."""
