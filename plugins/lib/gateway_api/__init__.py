"""The admin API for who adds to it and who calls it: routes, roles, tokens, addresses of gateways, clients."""
