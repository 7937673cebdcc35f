"""Test classes that a plugin's author derives from: each proves that a component keeps its kind's contract.

They need pytest and anyio's pytest plugin; nothing else of `gateway_core.testing` does. docs/howto/test-a-plugin.md
shows them.
"""

from .channel import ChannelSuite
from .codec import CodecSuite
from .farside import FarSide, HttpFarSide, RemoteFarSide
from .filter import FilterSuite
from .kit import Kit, Suite
from .sink import RemoteSinkSuite, SinkSuite
from .source import MemoryIntake, SourceSuite

__all__ = [
    "ChannelSuite",
    "CodecSuite",
    "FarSide",
    "FilterSuite",
    "HttpFarSide",
    "Kit",
    "MemoryIntake",
    "RemoteFarSide",
    "RemoteSinkSuite",
    "SinkSuite",
    "SourceSuite",
    "Suite",
]
