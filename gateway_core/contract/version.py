"""The version of this release."""

from importlib.metadata import version

__version__ = version("tidegate")
