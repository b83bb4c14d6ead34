"""The cost model: sums by hand, sharing between devices, constants in a file, and errors of the command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import StreamConfig
from engine.model.features import encoder_pool
from engine.video.decoding_work import DecodingWork, measure_decoding
from eval.__main__ import main
from eval.data.loading import read_samples
from eval.planning import predict as predict_module
from eval.planning.constants import CONSTANTS, Machine, ModelConstants, add_machine, find_machine, read_machines
from eval.planning.fitting import TimedWork, fit_decoding, fit_quantity, fit_times
from eval.planning.predict import StreamWork, choose_batch, count_work, predict, share_out, time_decoding, time_work
from eval.planning.workload import MAX_FILES, PerVideo, VideoLoad, read_load, read_loads
from tests.engine.video.test_selective import Encoding, write

MODEL = ModelConstants(
    measured="nothing",
    load_s=1.0,
    encode_s=0.02,
    pass_s=0.1,
    row_s=0.01,
    token_s=0.001,
    context_s=0.0001,
    first_passes=PerVideo(frame=1.0, turn=2.0),
    passes=PerVideo(frame=0.5, turn=2.0),
    tokens=PerVideo(frame=2.0, turn=10.0),
    context=PerVideo(prompt_character=1.0, frame=1.0),
    weights_mb=100.0,
    video_mb=10.0,
    feature_bytes=64,
)
MACHINE = Machine(
    hardware="a processor, 2 cores",
    device="cpu",
    num_cores=2,
    num_devices=2,
    torch="2",
    import_s=3.0,
    decode_megapixel_s=0.02,
    decode_megabyte_s=0.5,
    decode_frame_s=0.01,
    score_s=1.0,
    score_video_s=0.5,
    tables_s=0.25,
    base_mb=200.0,
    run_bytes=5000.0,
    video_bytes=1000.0,
    models={"small": MODEL},
)
LOAD = VideoLoad(frames=10, turns=2, characters=40, prompt_characters=90, frame_bytes=100)


def test_the_work_of_a_video_is_linear_in_frames_and_turns_and_its_time_in_the_work() -> None:
    work = count_work([LOAD], MODEL, batch_size=4)
    # 10 * 1 + 2 * 2 = 14 passes; 10 * 2 + 2 * 10 = 40 tokens; a context of 90 + 10 is half as long on average
    assert work == StreamWork(passes=14, rows=14, tokens=40, context=14 * 50)
    assert time_work(work, MODEL) == pytest.approx(1.4 + 0.14 + 0.04 + 0.07)


def test_the_first_video_is_ahead_and_a_video_that_ends_makes_room() -> None:
    short = replace(LOAD, frames=0)  # 4 passes
    work = count_work([LOAD, short, short], MODEL, batch_size=2)
    assert (work.passes, work.rows) == (14 + 4, 14 + 4 + 4)
    assert count_work([LOAD, short, short, short], MODEL, batch_size=2).passes == 14 + 8
    assert count_work([LOAD, short, short], MODEL, batch_size=1).passes == 22
    assert count_work([], MODEL, batch_size=2).passes == 0
    # of 512 + 4 passes, 129 are those of the first 128 frames, alone; 387 others are shared with 4 of each short one
    long = replace(LOAD, frames=512)
    assert count_work([long, short, short], MODEL, batch_size=2).passes == 129 + 387
    # 387 and 100 * 4 in two places: 387 + 2 * 4 in one, 98 * 4 in the other
    assert count_work([long, *[short] * 100], MODEL, batch_size=2).passes == 129 + 395


def test_limits_of_the_plan_are_those_of_the_run() -> None:
    ours = predict_module.MAX_DECODERS, predict_module.MAX_CONTEXT
    assert (encoder_pool.MAX_THREADS, StreamConfig().max_seq_len) == ours


def test_decoding_takes_pixels_and_bytes_and_an_unread_file_counts_as_the_others() -> None:
    read = replace(LOAD, decoding=DecodingWork(codec="h264", pictures=50, megapixels=10, megabytes=2))
    assert time_decoding([read], MACHINE) == pytest.approx(10 * 0.02 + 2 * 0.5)
    assert time_decoding([read, replace(LOAD, frames=30)], MACHINE) == pytest.approx(4 * 1.2)
    assert time_decoding([LOAD], MACHINE) == pytest.approx(0.1)
    assert time_decoding([], MACHINE) == 0


def test_two_devices_share_the_videos_and_the_stages_of_each_share_its_core() -> None:
    plan = predict([LOAD] * 4, MACHINE, "small", fps=[2.0] * 4, num_devices=2, batch_size=2, keeps_features=True)
    # per device two videos, one after the head start of the other: 20 frames * 0.03 s, 14 + 9 passes * 0.11 s,
    # 80 tokens * 0.001 s and 23 * 50 tokens of context * 0.0001 s
    busy_s = 0.6 + 23 * 0.11 + 0.08 + 0.115
    # the start takes 3 + 1 s, in which the other core does the first second of the scores; both cores share the work of
    # two workers and 4 * 0.5 s of scores; the tables take 0.25 s after it
    assert plan.worker_s == pytest.approx((2 * busy_s + 2.0) / 2)
    assert plan.wall_s == pytest.approx(4.0 + plan.worker_s + 0.25)
    heavy = replace(MACHINE, score_s=7.0)
    plan = predict([LOAD] * 4, heavy, "small", fps=[2.0] * 4, num_devices=2, batch_size=2)
    assert plan.worker_s == pytest.approx((2 * busy_s + 2.0 + 7.0 - 4.0) / 2)
    plan = predict([LOAD] * 4, replace(heavy, score_s=70.0), "small", fps=[2.0] * 4, num_devices=2, batch_size=2)
    assert plan.wall_s == pytest.approx(72.25)
    quick = replace(MACHINE, score_s=0.0, score_video_s=0.0)
    plan = predict([LOAD] * 4, quick, "small", fps=[2.0] * 4, num_devices=2, batch_size=2, keeps_features=True)
    assert plan.worker_s == pytest.approx(busy_s)
    assert (plan.num_frames, plan.video_s, plan.num_turns) == (40, 20.0, 8)
    assert plan.worker_mb == 200 + 100 + 2 * 10
    assert plan.run_bytes == 5000 + 4 * (10 * 100 + 40 + 1000)
    assert plan.feature_bytes == 40 * 64


def test_features_that_exist_cost_no_decoding_and_an_unmeasured_vision_tower_is_unknown() -> None:
    known = predict([LOAD], MACHINE, "small", fps=[2.0], num_devices=1, batch_size=1, has_features=True)
    assert (known.decode_s, known.encode_s) == (0, 0)
    blind = replace(MACHINE, models={"small": replace(MODEL, encode_s=None)})
    assert predict([LOAD], blind, "small", fps=[2.0], num_devices=1, batch_size=1).encode_s is None


def test_the_longest_videos_go_to_different_devices() -> None:
    loads = [replace(LOAD, frames=frames) for frames in (1, 5, 4, 2)]
    assert [[load.frames for load in share] for share in share_out(loads, 2)] == [[5, 1], [4, 2]]
    assert [len(share) for share in share_out(loads, 9)] == [1, 1, 1, 1]


def test_a_batch_is_at_most_the_share_of_a_device() -> None:
    assert [choose_batch(16, devices, None, default=16) for devices in (1, 2, 3, 99)] == [16, 8, 6, 1]
    assert choose_batch(1000, 2, 4, default=16) == 4


def test_a_fit_finds_the_coefficients_of_a_linear_cost() -> None:
    loads = [replace(LOAD, frames=f, turns=t, characters=c, prompt_characters=p) for f, t, c, p in
             ((10, 1, 30, 5), (40, 3, 10, 9), (80, 9, 90, 2), (20, 0, 70, 7), (55, 4, 0, 8))]  # fmt: skip
    values = [0.5 * load.frames + 2 * load.turns + 0.25 * load.characters for load in loads]
    fitted = fit_quantity(loads, values)
    assert (fitted.frame, fitted.turn, fitted.character) == pytest.approx((0.5, 2.0, 0.25), rel=1e-3)
    assert fitted.prompt_character == pytest.approx(0, abs=1e-6)
    assert fit_quantity(loads, values, has_prompt=False) == replace(fitted, prompt_character=0.0)
    works = [StreamWork(passes=p, rows=r, tokens=t, context=c) for p, r, t, c in
             ((9, 9, 40, 450), (9, 30, 90, 100), (50, 60, 70, 900), (3, 3, 800, 40), (20, 300, 10, 10))]  # fmt: skip
    timed = [TimedWork(work=work, seconds=time_work(work, MODEL)) for work in works]
    assert fit_times(timed) == pytest.approx((0.1, 0.01, 0.001, 0.0001), rel=1e-3)
    decoded = [
        DecodingWork(codec="h264", pictures=1, megapixels=p, megabytes=b) for p, b in ((60, 0.2), (58, 0.7), (90, 3))
    ]
    seconds = [work.megapixels * 0.002 + work.megabytes * 0.08 for work in decoded]
    assert fit_decoding(decoded, seconds) == pytest.approx((0.002, 0.08), rel=1e-3)


def test_the_workload_of_a_sample_is_its_frames_and_the_texts_of_its_reference(demo_manifest: Path) -> None:
    sample = read_samples(demo_manifest)[0]
    load = read_load(sample)
    texts = ("Let's build the toy truck.", "S1->start", "S1->complete", "S2->start")
    assert (load.frames, load.turns, load.characters) == (12, 4, sum(map(len, texts)))
    assert load.prompt_characters == len(
        "build the toy truckattach the wheelput on the roofload the blockWhat is next?"
    )
    assert load.decoding == measure_decoding(demo_manifest.with_name("truck-1.mp4"), fps=2.0)
    assert read_load(replace(sample, video_path=Path("/nowhere/x.mp4"))) == replace(load, decoding=None)
    many = [replace(sample, video_id=str(number)) for number in range(MAX_FILES + 1)]
    assert [one.decoding is not None for one in read_loads(many)][:4] == [True, False, True, False]
    assert sum(one.decoding is not None for one in read_loads(many[:MAX_FILES])) == MAX_FILES


def test_constants_of_machines_and_models_are_added_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "constants.json"
    add_machine(path, MACHINE)
    add_machine(path, replace(MACHINE, models={"large": MODEL}, import_s=9.0))
    add_machine(path, replace(MACHINE, hardware="a GPU", device="cuda"))
    machines = read_machines(path)
    assert [(machine.hardware, list(machine.models), machine.import_s) for machine in machines] == [
        ("a processor, 2 cores", ["small", "large"], 9.0),
        ("a GPU", ["small"], 3.0),
    ]
    assert find_machine(machines, arch="small", hardware="gpu").device == "cuda"
    with pytest.raises(ValueError, match="--arch huge --constants FILE`, or choose one of: small, large on a p"):
        find_machine(machines, arch="huge")
    path.write_text(path.read_text().replace('"import_s": 3.0', '"import_s": -1'))
    with pytest.raises(ValueError, match=r"import_s.*remove it and measure again with `stepscope plan SPLIT"):
        read_machines(path)


def test_the_command_plans_the_split_with_the_constants_of_the_package(
    demo_manifest: Path, undisturbed: Path, six_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(demo_manifest), "--devices", "2", "--features"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("2 videos, 24 frames, 12.0 s of video, 8 messages and updates")
    for name in ("decode", "encode", "stream", "wall clock", "memory", "storage"):
        assert f"\n{name}" in printed
    assert "\nerror on the 16 videos of test.json, which were not measured: passes " in printed
    assert "no video file" not in printed
    assert "uncertain" not in printed
    (tmp_path / "moved.json").write_text(demo_manifest.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["plan", str(tmp_path / "moved.json")]) == 0
    assert "of one core; no video file can be read: per frame as the measured videos" in capsys.readouterr().out
    assert main(["plan", str(demo_manifest), "--hours", "1000", "--devices", "64", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["video_s"] == 3_600_000
    assert plan["hardware"] == find_machine(read_machines(), arch="bundled").hardware
    assert main(["plan", str(six_videos), "--run", str(undisturbed), "--json"]) == 0
    found = {one["quantity"]: one for one in json.loads(capsys.readouterr().out)["run"]}
    assert found["run_bytes"]["measured"] == sum(path.stat().st_size for path in undisturbed.iterdir())
    assert found["worker_s"]["measured"] > 0


def test_the_plan_names_a_codec_that_was_not_measured(
    demo_manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "split.json").write_text(demo_manifest.read_text(encoding="utf-8"), encoding="utf-8")
    write(tmp_path / "truck-1.mp4", Encoding(encoder="mpeg4", suffix=".mp4"))
    assert main(["plan", str(tmp_path / "split.json")]) == 0
    assert "of one core; measured with h264: uncertain for mpeg4\n" in capsys.readouterr().out
    assert main(["plan", str(tmp_path / "split.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["other_codecs"] == ["mpeg4"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--arch", "huge"], "no constants of huge"),
        (["--arch", "SmolVLM2-256M"], "stepscope plan SPLIT --measure --arch SmolVLM2-256M --constants FILE"),
        (["--against", "/nowhere/split.json"], "--against is for --measure"),
        (["--devices", "0"], "--devices must be at least 1"),
        (["--hours", "0"], "--hours must be positive"),
        (["--hours", "nan"], "--hours must be positive"),
        (["--constants", "/nowhere/x.json"], "/nowhere/x.json does not exist"),
        (["--run", "/nowhere/run"], "has no outputs of truck-1"),
    ],
)
def test_wrong_use_is_one_line(
    demo_manifest: Path, capfd: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert main(["plan", str(demo_manifest), *options]) == 2
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert complaint in message


@pytest.mark.slow
def test_a_measurement_writes_constants_that_predict_the_videos_left_out(
    six_videos: Path, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "constants.json"
    options = ["plan", str(six_videos), "--constants", str(path)]
    assert main([*options, "--measure", "--checkpoint", str(tiny_folder), "--arch", "mine", "--device", "cpu"]) == 0
    assert "error on the 3 other videos of split.json, which were not measured: passes " in capsys.readouterr().out
    machine = find_machine(read_machines(path), arch="mine")
    model = machine.models["mine"]
    assert machine.base_mb > 0
    assert machine.decode_megapixel_s + machine.decode_megabyte_s > 0
    assert model.passes.of(LOAD) > 0
    assert time_work(count_work([LOAD], model, batch_size=1), model) > 0
    assert main([*options, "--measure", "--arch", "tiny", "--device", "cpu"]) == 0
    assert "the vision tower of this shape was not measured" in capsys.readouterr().out
    assert list(find_machine(read_machines(path), arch="tiny").models) == ["mine", "tiny"]
    assert path != CONSTANTS
