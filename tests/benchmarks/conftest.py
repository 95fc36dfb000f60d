"""What the benchmark modules share as fixtures, and the way to their plumbing by its bare name."""

import sys
from pathlib import Path

import pytest

# pytest's importlib mode leaves sys.path alone, so `import _timing` would not be found.
sys.path.insert(0, str(Path(__file__).parent))

from _timing import Record


@pytest.fixture(scope="module")
def record(request):
    """Rows of the module bench_PAGE.py, which are written to PAGE.json when it is done.

    A module that depends on more than the core says so: ``PACKAGES = ("torch",)``.
    """
    page = Path(request.path).stem.removeprefix("bench_")
    with Record(page, packages=getattr(request.module, "PACKAGES", ())) as rows:
        yield rows


@pytest.fixture(scope="module")
def one_torch_thread():
    """Torch computes with one thread; `compare` holds back BLAS and OpenMP only."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
