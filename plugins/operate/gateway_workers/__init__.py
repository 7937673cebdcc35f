"""Tidegate plugin `workers`: runs a gateway in one process or in several, and watches them."""
