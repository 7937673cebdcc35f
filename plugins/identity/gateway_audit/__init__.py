"""The audit log: who changed the gateway, and who was refused."""
