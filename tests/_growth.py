"""How much memory a call keeps after it has returned.

Four numbers are read between stretches of calls. Three are exact, so that a stretch without a
leak adds nothing at all: the bytes that the C library has handed out, where numpy, torch and our
kernels get theirs; the blocks of Python's own allocator; the objects that the garbage collector
tracks. The fourth, the resident set, is what a user sees and covers memory that is mapped past
the others; it is read after the C library gave back what it holds free, and is noisy by some
pages.
"""

import ctypes
import gc
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# What a quiet stretch of calls may add: noise does not grow with the number of calls in it.
LIMITS = {"heap": 2048, "blocks": 2, "objects": 2, "resident": 10 * os.sysconf("SC_PAGE_SIZE")}


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


_LIBC = ctypes.CDLL(None)
_malloc_trim = getattr(_LIBC, "malloc_trim", None)
_mallinfo2 = getattr(_LIBC, "mallinfo2", None)  # glibc 2.33 has it, musl has neither
if _mallinfo2 is not None:
    _mallinfo2.restype = _Mallinfo2


@dataclass(frozen=True)
class Growth:
    """Memory that one call keeps.

    Parameters
    ----------
    heap : float
        Bytes from the C library; 0 where it does not count them.
    blocks : float
        Blocks from Python's allocator.
    objects : float
        Objects that the garbage collector tracks.
    resident : float
        Bytes of the resident set.
    milliseconds : float
        Time of a call, for the table.
    n_calls : int
        Number of calls in a stretch.
    """

    heap: float
    blocks: float
    objects: float
    resident: float
    milliseconds: float
    n_calls: int

    def excess(self):
        """The quantities that are above their limit, with their values per call."""
        values = {name: getattr(self, name) for name in LIMITS}
        return {name: kept for name, kept in values.items() if kept * self.n_calls > LIMITS[name]}

    def __str__(self):
        return (
            f"{self.heap:9.1f} B heap {self.blocks:7.2f} blocks {self.objects:7.2f} objects "
            f"{self.resident / 1024:7.2f} KiB resident {self.milliseconds:8.1f} ms"
        )


def growth_per_call(call, n_calls, *, warm_up, n_stretches):
    """Measure what a call keeps.

    Parameters
    ----------
    call : callable
        Called without arguments; it does the same work every time.
    n_calls : int
        Number of calls that are measured.
    warm_up : int
        Number of calls before: caches fill, libraries load.
    n_stretches : int
        Number of stretches into which the measured calls are divided. A leak adds to each of
        them; a cache or a pool that fills, to a few. The lower quartile of what the stretches
        add tells one from the other.

    Returns
    -------
    Growth
        Per call.
    """
    length = n_calls // n_stretches
    readings = np.empty((n_stretches + 1, len(LIMITS)))  # made before, so that it is no growth
    for _ in range(warm_up):
        call()
    gc.collect()
    gc.freeze()  # what is there already need not be walked through at every reading
    try:
        readings[0] = _memory()
        start = time.perf_counter()
        for stretch in range(n_stretches):
            for _ in range(length):
                call()
            readings[stretch + 1] = _memory()
        seconds = time.perf_counter() - start
    finally:
        gc.unfreeze()
    kept = np.quantile(np.diff(readings, axis=0), 0.25, axis=0) / length
    milliseconds = 1000 * seconds / (n_stretches * length)
    return Growth(*kept.tolist(), milliseconds, length)


def _memory():
    """The four numbers, in the order of LIMITS, once all that is garbage is gone."""
    # The cache of attribute look-ups keeps names that C code made up, one more every few calls.
    getattr(sys, "_clear_type_cache", int)()
    gc.collect()
    if _malloc_trim is not None:
        _malloc_trim(0)
    heap = 0
    if _mallinfo2 is not None:
        info = _mallinfo2()
        heap = info.uordblks + info.hblkhd
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    return heap, sys.getallocatedblocks(), len(gc.get_objects()), resident
