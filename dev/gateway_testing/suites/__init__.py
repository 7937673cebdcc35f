"""Base classes for plugin authors' tests: each checks that a component keeps the contract of its kind. Only these need
pytest and anyio's pytest plugin. docs/howto/test-a-plugin.md shows them.
"""

from .authenticator import AuthenticatorSuite, request
from .channel import ChannelSuite
from .codec import CodecSuite
from .filter import FilterSuite
from .key_mapper import KeyMapperSuite
from .kit import Kit, Suite
from .memory_intake import MemoryIntake
from .pulling import PullingSourceSuite
from .remote import ControllableRemote, HttpRemote, Remote, ReturningRemote
from .remote_channel import RemoteChannelSuite
from .sink import ReconnectingSinkSuite, RemoteSinkSuite, SinkSuite
from .source import SourceSuite
from .source_remote import SourceRemote

__all__ = [
    "AuthenticatorSuite",
    "ChannelSuite",
    "CodecSuite",
    "ControllableRemote",
    "FilterSuite",
    "HttpRemote",
    "KeyMapperSuite",
    "Kit",
    "MemoryIntake",
    "PullingSourceSuite",
    "ReconnectingSinkSuite",
    "Remote",
    "RemoteChannelSuite",
    "RemoteSinkSuite",
    "ReturningRemote",
    "SinkSuite",
    "SourceRemote",
    "SourceSuite",
    "Suite",
    "request",
]
