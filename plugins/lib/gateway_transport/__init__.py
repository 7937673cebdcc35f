"""What authors of transports need beside the contract: hand-over to the intake, reconnects, messages."""
