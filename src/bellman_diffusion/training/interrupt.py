"""Ctrl-C between two chunks of steps, not in the middle of one.

Raised wherever the program happens to be, an interrupt can be lost (Python ignores what is raised in a
callback or a finaliser) or leave another library's lock held. So the first Ctrl-C is only noted, and
the loop stops where its state is whole; a second one stops at once.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self._asked = False

    def note(self, signal_number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        if self._asked:
            signal.default_int_handler(signal_number, frame)
        self._asked = True
        sys.stderr.write("stopping after this chunk of steps; Ctrl-C again stops at once\n")

    def check(self) -> None:
        """Stop here if that was asked for."""
        if self._asked:
            raise KeyboardInterrupt


@contextmanager
def stop_between_chunks() -> Iterator[StopRequest]:
    """Note Ctrl-C instead of raising it, where nobody else has taken the signal."""
    request = StopRequest()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield request
        return
    signal.signal(signal.SIGINT, request.note)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
