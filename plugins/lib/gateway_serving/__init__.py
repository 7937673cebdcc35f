"""HTTP servers with limits, for plugins that receive requests."""
