"""Threads of which one runs at a time, up to its next turn, in an order that is drawn."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable


class TimeIsUpError(Exception):
    """The turns are used up; this ends the threads that wait for something that never comes."""


class Turns:
    """At most ``limit`` turns, taken in an order that is drawn by ``seed``."""

    def __init__(self, seed: int, limit: int = 1000) -> None:
        self.drawn = random.Random(seed)
        self.left = limit
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._alive = 0
        self._chosen: int | None = None

    def take(self) -> None:
        """Wait for this thread's next turn. Raises `TimeIsUpError`."""
        me = threading.get_ident()
        with self._changed:
            self._waiting.add(me)
            self._choose()
            while self._chosen != me:
                self._changed.wait()
            self._chosen = None
            self._waiting.remove(me)
            self.left -= 1
            if self.left < 0:
                raise TimeIsUpError

    def run(self, programs: list[Callable[[], None]]) -> None:
        """Run all programs to their ends, or until the turns are used up; raise the first other error of one."""
        errors: list[BaseException] = []

        def alone(program: Callable[[], None]) -> None:
            try:
                self.take()
                program()
            except TimeIsUpError:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again in `run`
                errors.append(error)
            finally:
                with self._changed:
                    self._alive -= 1
                    self._choose()

        self._alive = len(programs)
        threads = [threading.Thread(target=alone, args=(program,)) for program in programs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _choose(self) -> None:
        if self._chosen is None and self._waiting and len(self._waiting) == self._alive:
            self._chosen = self.drawn.choice(sorted(self._waiting))
            self._changed.notify_all()
