"""What a sink proves itself with at its subscriber."""
