"""The audit log, for all who write to it or read it: lines of JSON in files of the data directory."""
