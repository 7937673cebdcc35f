"""Live events: what is accepted, or the outcomes of delivery attempts."""
