"""A cluster of two worker processes on this machine."""

import os

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
