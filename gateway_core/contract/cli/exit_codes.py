"""The exit codes of all commands."""

OK, FAULT, USAGE, START, CRASH, INTERRUPTED = 0, 1, 2, 3, 70, 130
"""0 success; 1 faults in a config, refused events, or a remote that says no; 2 a wrong command line; 3 a gateway that
can't start; 70 a bug in Tidegate. A command that Ctrl-C ends exits with 130."""
