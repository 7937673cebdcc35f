"""Test doubles and tools for gateways and plugins: a scripted HTTP subscriber, a fake clock, an in-memory sink."""

from .clock import FakeClock
from .process import GatewayProcess
from .sink import MemoryFeed, ScriptedSink
from .subscriber import Received, Subscriber

__all__ = ["FakeClock", "GatewayProcess", "MemoryFeed", "Received", "ScriptedSink", "Subscriber"]
