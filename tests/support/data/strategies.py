"""Made-up samples and texts: one to change by hand, and strategies for hypothesis."""

from hypothesis import settings
from hypothesis import strategies as st

from stepscope.engine.io.files import strip_text
from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample, Turn, turn_order
from tests.support.data.records import make_sample

few = settings(max_examples=25)
HOSTILE = (
    "=cmd|'/c calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "'=1",
    "<script>alert(1)</script>",
    "]]>",
    "&lt;",
    "-->",
    "a\n\nb",
    "a\r\nb",
    "\u202eevil\u202c",
    "\u05d0\u05d1",
    "nul\x00bell\x07",
    "\x85\u2028",
    "\ufffe",
    'a,"b"',
    "WEBVTT",
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
WORDS = TEXTS.filter(lambda text: bool(strip_text(text)))
STEPS = (Step(id="S1", name="set down the hull"), Step(id="S2", name="hang the sail"))
BOAT = make_sample(
    video_id="boat",
    num_frames=12,
    goal="build the boat",
    steps=STEPS,
    turns=(
        Turn(time_s=0.0, role="assistant", text="Set down the hull."),
        Turn(time_s=1.0, role="user", text="What now?"),
        Turn(time_s=2.5, role="user", text="Done?"),
        Turn(time_s=2.5, role="assistant", text="Done."),
    ),
)
UPDATES = st.sampled_from([f"{step.id}->{change}" for step in STEPS for change in ("start", "complete")])


@st.composite
def samples(draw: st.DrawFn, *, fps: float = 2.0, num_frames: int = 12, with_updates: bool = True) -> Sample:
    """Draw a sample whose turns stand at starts of frames."""
    turns = []
    for _ in range(draw(st.integers(0, 6))):
        time_s = draw(st.integers(0, num_frames - 1)) / fps
        is_update = with_updates and draw(st.booleans())
        role = "update" if is_update else draw(st.sampled_from(["user", "assistant"]))
        turns.append(Turn(time_s=time_s, role=role, text=draw(UPDATES if is_update else WORDS)))  # type: ignore[arg-type]
    return make_sample(
        video_id="v",
        fps=fps,
        num_frames=num_frames,
        goal="build the boat",
        steps=STEPS,
        turns=tuple(sorted(turns, key=turn_order)),
        initial_state={"S1": "completed"} if with_updates and draw(st.booleans()) else {},
    )
