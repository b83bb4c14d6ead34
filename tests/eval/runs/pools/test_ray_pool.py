"""Usage errors of a Ray cluster are one clear sentence, with and without Ray."""

import sys
from pathlib import Path

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import run_batch
from stepscope.eval.runs.pools.ray_pool import is_cluster
from tests.support.data.batches import make_worker_config


def test_ray_and_its_addresses_are_clusters_and_devices_are_none() -> None:
    assert [is_cluster(devices) for devices in ("ray", "ray://head:10001", "cpu:2", "rays", "auto")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_without_ray_the_sentence_says_what_to_install(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    with pytest.raises(ValueError, match=r"^devices ray need Ray, .*: pip install '\.\[ray\]'$"):
        next(run_batch(read_split(demo_manifest), make_worker_config(tiny_folder), out=out, devices="ray"))
    assert not out.exists()
