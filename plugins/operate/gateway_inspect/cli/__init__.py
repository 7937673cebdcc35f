"""Commands for looking inside a gateway."""
