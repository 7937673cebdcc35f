"""Tidegate plugin `workers`: a gateway in several processes that share its ingress."""
