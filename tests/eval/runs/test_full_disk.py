"""A full disk: one error message, no partial file, and the run is resumed once space is free."""

import subprocess
from pathlib import Path

import pytest

from stepscope.eval.__main__ import main
from tests.support.data.batches import copies, load_letters, no_java, write_split


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_sentence_and_no_half_file(
    tiny_disk: Path,
    demo_manifest: Path,
    tiny_folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.run_command.TextScorer", no_java)
    monkeypatch.setattr("stepscope.eval.cli.run_command.import_encoder", load_letters)
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 3))
    (tiny_disk / "ballast").write_bytes(bytes(52 * 1024))
    out = tiny_disk / "run"
    command = ["run", str(split), "--checkpoint", str(tiny_folder), "--out", str(out), "--devices", "cpu:1"]
    assert main(command) == 2
    lines = capfd.readouterr().err.splitlines()
    refusals = [line for line in lines if line.startswith("error: ")]
    assert refusals == [line for line in lines if "No space left on device" in line] != []
    for path in out.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not path.name.endswith(".part")
        assert text.endswith(("\n", "}"))
    (tiny_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", str(tiny_disk)], check=True)
    assert main([*command, "--resume"]) == 0, capfd.readouterr().err
    assert sorted(path.name for path in out.glob("*.record.json")) == [f"v{index}.record.json" for index in range(3)]
