"""Digests of the data that the player's script receives: a change of code that is no change of data keeps them.

After an intended change of the data: ``python -m tests.app.test_golden_packs`` writes new ones.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stepscope.engine.io.files import write_json
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into
from tests.support.pages.published import publish
from tests.support.paths import ASSETS, GOLDEN, ROOT

PACKS = GOLDEN / "packs.json"
IMPORTS = ROOT / "tests" / "data" / "imports"
IMPORTED = ("mmduet.jsonl", "proassist.json", "streamo.json", "videollm_online.json")
OF_THIS_MACHINE = ("origin", "summary")  # folders and versions


def test_the_data_of_five_runs_is_as_kept(tmp_path: Path) -> None:
    kept = json.loads(PACKS.read_text(encoding="utf-8"))
    found = digest_runs(tmp_path)
    changed = {
        pack: [name for name in kept.get(pack, {}) | parts if kept.get(pack, {}).get(name) != parts.get(name)]
        for pack, parts in found.items()
        if kept.get(pack) != parts
    }
    assert changed == {}
    assert found.keys() == kept.keys()


def digest_runs(folder: Path) -> dict[str, dict[str, str]]:
    """Return, per file of five published runs, the digest of each part."""
    return {f"{name}/{path.name}": digest_parts(path) for name, path in _publish_runs(folder)}


def digest_parts(path: Path) -> dict[str, str]:
    """Return the digest of each part of a file of data, its numbers with the digits that all processors agree on."""
    content = json.loads(path.read_text(encoding="utf-8"), parse_float=lambda number: f"{float(number):.6g}")
    return {
        name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:16]
        for name, part in content.items()
        if name not in OF_THIS_MACHINE
    }


def _publish_runs(folder: Path) -> Iterator[tuple[str, Path]]:
    runs = {"bundled": RunFolder(ASSETS / "demo" / "run")}
    split = read_split(IMPORTS / "gold.json")
    for name in IMPORTED:
        runs[name] = RunFolder(folder / "runs" / name)
        import_into(runs[name].path, [IMPORTS / name], split, {})
    for name, run in runs.items():
        videos = ["tower-hard", "robot-hard", "tower-permuted"] if name == "bundled" else []
        publish(run, folder / "sites" / name, videos=videos, files="none")
        for path in sorted((folder / "sites" / name / "data").rglob("*.json")):
            if path.name != "charts.json":  # as this version of Plotly writes it
                yield name, path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_json(PACKS, digest_runs(Path(folder)))
