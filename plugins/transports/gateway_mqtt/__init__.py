"""MQTT 5 and 3.1.1: a source and a sink (CloudEvents MQTT protocol binding 1.0.2)."""
