"""What the commands of plugins share: exit codes, options, settings, output."""
