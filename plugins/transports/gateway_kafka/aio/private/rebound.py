"""A function of aiokafka's with another global name: what it makes of that name changes for one object, and nothing
changes for the rest of the process."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any


def rebind(instance: Any, method: str, **names: object) -> None:
    """From now on this method of the instance finds these objects where it looks for its module's globals."""
    function = getattr(type(instance), method)
    unknown = [name for name in names if name not in function.__code__.co_names]
    assert not unknown, f"{function.__qualname__} does not use {', '.join(unknown)}"
    own = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__)
    own.__kwdefaults__ = function.__kwdefaults__
    setattr(instance, method, MethodType(own, instance))
