"""What the plugin offers."""
