"""Progress on the terminal, with tqdm when it is there."""

import sys
import time

try:
    from tqdm.auto import tqdm
except ModuleNotFoundError:
    tqdm = None


def progress(iterable, desc="", verbose=1, *, total=None):
    """Iterate, and show how far the iteration is.

    Parameters
    ----------
    iterable : iterable
        What to go through.
    desc : str
        What is being done, shown before the counter.
    verbose : int or bool
        0 or False: the iterable itself comes back and nothing is printed.
    total : int or None
        Number of items; ``len(iterable)`` when None and it has a length.

    Returns
    -------
    iterable
        A tqdm bar when tqdm is installed, else a generator that rewrites one plain line of
        ``sys.stderr``, at most ten times a second.
    """
    if not verbose:
        return iterable
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)
    if tqdm is not None:
        return tqdm(iterable, desc=desc, total=total)
    return _plain_progress(iterable, desc, total)


def _plain_progress(iterable, desc, total):
    of_total = "" if total is None else f"/{total}"
    count, last_shown = 0, -1.0
    try:
        for count, item in enumerate(iterable, start=1):
            yield item
            if (now := time.monotonic()) - last_shown >= 0.1:
                print(f"\r{desc}: {count}{of_total}", end="", file=sys.stderr, flush=True)
                last_shown = now
    finally:
        print(f"\r{desc}: {count}{of_total}", file=sys.stderr, flush=True)
