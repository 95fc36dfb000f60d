"""A cluster of two worker processes on this machine."""

import contextlib
import os

import joblib
import pytest


@pytest.fixture(scope="package")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        # Both workers are up, and neither is this process.
        processes = set(client.run(os.getpid).values())
        assert len(processes) == 2
        assert os.getpid() not in processes
        yield client


@pytest.fixture
def on_workers(client):
    """Context manager under which joblib's tasks go to the workers; that they did is asserted.

    How many tasks either worker gets is the scheduler's choice; this process runs none.
    """
    distributed = pytest.importorskip("distributed")

    @contextlib.contextmanager
    def on_workers():
        with distributed.get_task_stream(client) as stream, joblib.parallel_config("dask"):
            yield
        assert stream.data

    return on_workers
