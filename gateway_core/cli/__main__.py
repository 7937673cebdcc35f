"""`python -m gateway_core.cli` is `tidegate`."""

from . import main

main()
