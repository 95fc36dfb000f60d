"""On what a figure was measured: versions and machine, for the records of measurements."""

import os
import platform
from importlib import metadata
from pathlib import Path

_CORE = ("skml", "scikit-learn", "numpy", "scipy")


def package_versions(*extra):
    """Versions of Python, of skml, of what it is built on, and of further distributions.

    Parameters
    ----------
    *extra : str
        Names of distributions; one that is not installed is left out.

    Returns
    -------
    dict of str to str
        Version by distribution.
    """
    versions = {"python": platform.python_version()}
    for name in (*_CORE, *extra):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def machine_summary():
    """Describe the machine in general terms: cores, processor, memory, system.

    Returns
    -------
    str
        One line without any name that would identify the machine.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    parts = [f"{cores} core{'s' if cores > 1 else ''}", _processor()]
    memory = _memory_gib()
    if memory is not None:
        parts.append(f"{memory:.0f} GiB of memory")
    parts.append(f"{platform.system()} {platform.machine()}")
    return ", ".join(parts)


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _memory_gib():
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, OSError, ValueError):
        return None
