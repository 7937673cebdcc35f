"""Live events for people who look: what is accepted, or what becomes of attempts."""
