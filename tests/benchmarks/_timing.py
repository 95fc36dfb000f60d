"""What every benchmark shares: fair timing of two sides, peak memory, the written record.

A benchmark module ``bench_PAGE.py`` holds ordinary pytest tests. Each measures one row with
:func:`compare` (time) or :func:`compare_memory` and hands it to the fixture `record`, the
module's :class:`Record`, which writes ``docs/benchmarks/PAGE.json`` when the module is done::

    PACKAGES = ("lightgbm",)  # whose versions belong into the record, beyond those of the core

    def test_fit(benchmark, record):
        record.add(compare(benchmark, "fit, n = 50 000", ours, "peer's name", theirs, goal=5))

How the two sides are timed:

- in one process, with BLAS and OpenMP held to ``threads`` threads;
- interleaved, the peer directly before ours in every round, so that a slow spell of the machine
  meets both;
- once untimed, then several rounds, of which the fastest counts: other work on a machine only
  ever adds time.

The ratio is the peer's time over ours, so above one ours is faster. ``holds`` says whether the
ratio reaches ``goal``; without a goal both are None and the row only reports. A row of memory
has no times: its ratio is the allowed number of bytes over the measured one. ``limit_s`` is the
page's physical limit for our side where it names one, from the measured rate of the memory.
A missed goal is recorded, printed, and fails the test after the record has been kept.
"""

import ctypes
import gc
import json
import multiprocessing
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from skml.utils._environment import machine_summary, package_versions

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
_KEYS = ("name", "ours_s", "peer", "peer_s", "ratio", "goal", "holds")


def compare(
    benchmark,
    name,
    ours,
    peer,
    theirs,
    *,
    goal=None,
    rounds=5,
    threads=1,
    limit_s=None,
    warm_up=True,
    clock=time.perf_counter,
):
    """Time two callables against each other.

    Parameters
    ----------
    benchmark : pytest_benchmark.fixture.BenchmarkFixture
        The fixture; our side appears in its table.
    name : str
        What is done, with its size.
    ours : callable
        Function without arguments.
    theirs : callable or dict of str to callable
        The same for the other side; of several by name, the fastest counts.
    peer : str or None
        Name of the other side; None if ``theirs`` is a dict.
    goal : float or None
        Ratio that must be reached.
    rounds : int
        Timed repetitions of each side.
    threads : int
        Threads that BLAS and OpenMP may use.
    limit_s : float or None
        Physical limit in seconds.
    warm_up : bool
        False spares the untimed calls, where a peer takes so long that they do not matter.
    clock : callable
        ``time.process_time`` counts the processor time of all threads instead: for small
        differences between two runs of the same code, which other work on a machine hides.

    Returns
    -------
    dict
        The row.
    """
    peers = theirs if isinstance(theirs, dict) else {peer: theirs}
    ours_s, peers_s = [], {name: [] for name in peers}

    def timed(function, seconds):
        gc.collect()
        start = clock()
        function()
        seconds.append(clock() - start)

    def time_peers():
        for key, function in peers.items():
            timed(function, peers_s[key])

    with threadpool_limits(limits=threads):
        if warm_up:
            for function in peers.values():
                function()
        benchmark.pedantic(
            lambda: timed(ours, ours_s),
            setup=time_peers,
            rounds=rounds,
            warmup_rounds=int(warm_up),
        )
    peer = min(peers_s, key=lambda key: min(peers_s[key]))
    peer_s = min(peers_s[peer])
    row = _row(name, min(ours_s), peer, peer_s, peer_s / min(ours_s), goal)
    if limit_s is not None:
        row["limit_s"] = limit_s
    benchmark.extra_info.update(row)
    return row


def compare_memory(name, function, allowed, what):
    """Compare the peak memory of a callable with a number of bytes.

    Parameters
    ----------
    name : str
        What is done, with its size.
    function : callable
        Function without arguments; it runs in a forked process.
    allowed : int
        Bytes it may use beyond what is there before the call.
    what : str
        What the allowed bytes are made of.

    Returns
    -------
    dict
        The row, with ``ours_bytes`` and ``peer_bytes`` (what is allowed).
    """
    used = peak_memory(function)
    row = _row(name, None, what, None, allowed / used, 1.0)
    return {**row, "ours_bytes": used, "peer_bytes": allowed}


def peak_memory(function):
    """Highest resident memory during a call, in bytes above what was resident before it.

    Compiled code allocates outside Python's view, so the kernel's own high-water mark is read;
    it is reset right before the call, in a forked process that holds nothing else. That process
    makes the call once beforehand: code that it touches for the first time would count as well.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child():
        function()
        gc.collect()
        # Free pages that the allocator keeps would hide memory that the call takes from them.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = _status_bytes("VmRSS")
        result = function()
        sender.send(_status_bytes("VmHWM") - before)
        del result

    process = context.Process(target=child)
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise RuntimeError("the measured call failed; its traceback is above") from None
    finally:
        process.join()


def memory_rate():
    """Bytes per second that one core moves in a copy (read and written), for physical limits."""
    source = np.ones(2**24)
    target = np.empty_like(source)
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(seconds)


class Record:
    """The rows of one benchmark module; a context manager that writes them at the end.

    Parameters
    ----------
    page : str
        Name of the method's page.
    packages : tuple of str
        Distributions beyond the core whose versions matter.
    """

    def __init__(self, page, packages=()):
        self.page = page
        self.packages = packages
        self.rows = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Write the record; rows that this run did not measure stay as they were."""
        path = RECORDS / f"{self.page}.json"
        fresh = {row["name"]: row for row in self.rows}
        if not fresh:
            return
        kept = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
        rows = [fresh.pop(row["name"], row) for row in kept] + list(fresh.values())
        content = {
            "page": self.page,
            "rows": rows,
            "versions": package_versions(*self.packages),
            "machine": machine_summary(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def add(self, row):
        """Keep and print a row, then fail if its goal is missed."""
        self.rows.append(row)
        print("\n" + describe(row))
        assert row["holds"] is not False, f"goal missed: {describe(row)}"


def describe(row):
    """One line of text for a row."""
    if row["ours_s"] is None:
        sizes = f"{row['ours_bytes'] / 2**20:.1f} MiB, allowed {row['peer_bytes'] / 2**20:.1f} MiB"
        text = f"{row['name']}: {sizes} ({row['peer']})"
    else:
        text = f"{row['name']}: {row['ours_s']:.4f} s, {row['peer']} {row['peer_s']:.4f} s"
    text += f", ratio {row['ratio']:.2f}"
    if row["goal"] is not None:
        text += f", goal {row['goal']:g}: {'holds' if row['holds'] else 'MISSED'}"
    if "limit_s" in row:
        text += f", physical limit {row['limit_s']:.4f} s"
    return text


def _row(name, ours_s, peer, peer_s, ratio, goal):
    holds = None if goal is None else bool(ratio >= goal)
    return dict(zip(_KEYS, (name, ours_s, peer, peer_s, ratio, goal, holds), strict=True))


def _status_bytes(name):
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the kernel does not report {name}")
