"""The judge of contents that the options of a command name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepscope.eval.cli.options import JudgeOptions
from stepscope.eval.matching.grading import NamedJudge
from stepscope.eval.served.chat import ChatClient, Endpoint
from stepscope.eval.served.judge import CACHE_NAME, EndpointJudge


@contextmanager
def open_judge(options: JudgeOptions, folder: Path) -> Iterator[NamedJudge | None]:
    """Open the served judge, which keeps its answers in a run folder; None for the default one."""
    if not options.judge:
        yield None
        return
    if not options.judge_model.strip():
        raise ValueError("--judge-model is missing; name the model that grades")
    endpoint = Endpoint(url=options.judge, model=options.judge_model)
    if endpoint.is_stream:
        raise ValueError(f"a judge must be an http:// or https:// endpoint; got {options.judge}")
    with ChatClient(endpoint) as client:
        judge = EndpointJudge(client, folder / CACHE_NAME)
        yield NamedJudge(name=judge.name, grade=judge)
