"""Base classes for plugin authors' tests: each checks that a component keeps the contract of its kind. Only these need
pytest and anyio's pytest plugin. docs/howto/test-a-plugin.md shows them.
"""

from .channel import ChannelSuite
from .codec import CodecSuite
from .filter import FilterSuite
from .kit import Kit, Suite
from .pulling import PullingSourceSuite, SourceRemote
from .remote import ControllableRemote, HttpRemote, Remote
from .sink import RemoteSinkSuite, SinkSuite
from .source import MemoryIntake, SourceSuite

__all__ = [
    "ChannelSuite",
    "CodecSuite",
    "ControllableRemote",
    "FilterSuite",
    "HttpRemote",
    "Kit",
    "MemoryIntake",
    "PullingSourceSuite",
    "Remote",
    "RemoteSinkSuite",
    "SinkSuite",
    "SourceRemote",
    "SourceSuite",
    "Suite",
]
