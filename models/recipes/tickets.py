"""Work shared out as it is taken, so that a process whose core is busy with other things does not hold up the rest; or done ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

In, Out = TypeVar("In"), TypeVar("Out")


class Tickets:
    """A counter over all processes. In each round, which ends where all meet, `round_of(n)` deals `0..n-1` once."""

    def __init__(self, counter=None):
        self._counter = counter  # multiprocessing.Value("q"), or None for one process alone
        self._before = 0

    def round_of(self, count: int) -> Iterator[int]:
        first, self._before = self._before, self._before + count
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


def ahead(make: Callable[[In], Out], items: Iterable[In], threads: int) -> Iterator[Out]:
    """`make` of each item, in order, by threads before it is asked for."""
    items = iter(items)
    with ThreadPoolExecutor(threads) as workers:
        waiting = deque(workers.submit(make, item) for item in islice(items, 2 * threads))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(workers.submit(make, item) for item in islice(items, 1))
            yield done
