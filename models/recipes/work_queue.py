"""Work that several processes share, and work that threads prepare in advance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

In, Out = TypeVar("In"), TypeVar("Out")


class WorkQueue:
    """Deals the items of each round to all processes, so that a process on a busy core takes fewer of them.

    The processes synchronise at the end of each round. Without a counter one process takes every item.
    """

    def __init__(self, counter=None):
        self._counter = counter  # multiprocessing.Value("q") that all processes share, or None
        self._dealt = 0

    def deal(self, count: int) -> Iterator[int]:
        """Yields the items of this process in a round of `0..count-1`; over all processes each item occurs once."""
        first, self._dealt = self._dealt, self._dealt + count
        if self._counter is None:
            yield from range(count)
            return
        while True:
            with self._counter.get_lock():
                number = self._counter.value
                if number >= first + count:
                    return
                self._counter.value = number + 1
            yield number - first


def prefetch(make: Callable[[In], Out], items: Iterable[In], threads: int) -> Iterator[Out]:
    """Yields `make(item)` of each item in order; threads compute the next results in advance."""
    items = iter(items)
    with ThreadPoolExecutor(threads) as workers:
        waiting = deque(workers.submit(make, item) for item in islice(items, 2 * threads))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(workers.submit(make, item) for item in islice(items, 1))
            yield done
