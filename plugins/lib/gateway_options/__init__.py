"""Types of options that many components have, and what belongs to them: addresses, URLs, TLS, names, renewed files."""
