"""What a worker keeps for the console: samples, and what the last events were. It costs little while nobody looks."""

from __future__ import annotations

from typing import Any

from anyio.abc import TaskGroup
from gateway_serving.slices import finished

from gateway_core.contract.services import GatewayView

from .catalogue.lookout import QUESTION, Lookout
from .context import Console
from .failures import own_failures
from .recorder import Asked, Recorder, Recording
from .sampler import Sampler


class ConsoleParts:
    """Those of one worker."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._sampler = Sampler(gateway.status, lambda: finished(gateway.status_in_steps()))
        self._lookout = Lookout(gateway)
        self._recorder = Recorder(gateway)
        self._recording = Recording(gateway, self._sampler, self._recorder)
        self._sampler.on_watch = self._recording.look

    @property
    def console(self) -> Console:
        """What the pages need of them."""
        return Console(self._gateway, self._sampler, self._lookout, self._recording)

    def start(self, tasks: TaskGroup) -> None:
        """Runs them in these tasks."""
        if self._gateway.worker == 0:
            tasks.start_soon(self._sampler.run)
            tasks.start_soon(self._recording.run)
        tasks.start_soon(self._lookout.run)

    def answer(self, question: Any) -> Any:
        """See `ConsoleService.answer`."""
        if QUESTION in question:
            return self._lookout.answer(question[QUESTION])
        if "recorded" in question:
            return self._recorder.answer(question["recorded"])
        return own_failures(self._gateway, question["failures"])

    def open(self) -> Asked:
        """Records until the stream is closed."""
        self._recorder.begin()
        return Asked()

    def close(self, stream: Asked) -> None:
        """Closes a stream that `open` returned."""
        stream.close()
        self._recorder.end()
