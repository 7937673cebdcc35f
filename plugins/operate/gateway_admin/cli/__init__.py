"""Commands that query or change a running gateway."""
