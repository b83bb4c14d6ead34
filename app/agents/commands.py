"""The commands ``stepscope mcp`` and ``stepscope review``."""

import sys
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Any

from tqdm import tqdm

from stepscope.app.agents.options import McpOptions, ReviewOptions
from stepscope.app.agents.reviewer import ANSWERS, describe_cost, judge_cases, list_cases
from stepscope.app.agents.workspace import import_server, open_workspace
from stepscope.app.exports.options import STORE
from stepscope.app.review_store.actions import MODEL, check_reviewer
from stepscope.app.review_store.database import check_store_location
from stepscope.app.review_store.review import describe_calibration, measure_programs
from stepscope.app.review_store.store import open_store, read_review
from stepscope.eval.data.loading import read_split
from stepscope.eval.dialogues.served import KeptAnswers
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.served.chat import ChatClient, make_endpoint


def serve_mcp(options: McpOptions) -> None:
    """Serve the tools over stdio until the client leaves."""
    server = import_server()
    with open_workspace(options.runs, options.reviews) as workspace:
        server.serve_stdio(workspace, options.page)


def review(options: ReviewOptions) -> int:
    """Let a model judge the mistakes of a run, and print its agreement with people; return 1 if one has no verdict."""
    if options.max_mistakes < 1 or options.workers < 1 or not options.model.strip():
        raise ValueError("--max-mistakes and --workers must be at least 1, and --model a name")
    endpoint = make_endpoint(options)
    run, name = RunFolder(options.run), check_reviewer(f"{MODEL}{options.model}")
    split = read_split(run.split_path())
    with open_store(check_store_location(options.reviews) if options.reviews else STORE) as store:
        chosen: Any = {"videos": options.video, "limit": options.max_mistakes}
        cases, num_judged = list_cases(run, split, store, name, **chosen)
        print(f"{name}: {num_judged} judged before; {describe_cost(cases)}", flush=True)
        if options.estimate:
            return 0
        kept, client = KeptAnswers(run.path / ANSWERS, model=options.model), partial(ChatClient, endpoint)
        steps = judge_cases(cases, kept, client, store, reviewer=name, num_workers=options.workers)
        problems = list[str]()
        with closing(steps), tqdm(total=len(cases), unit="mistake", dynamic_ncols=True) as bar:
            for problem in steps:
                problems += [problem] if problem else []
                bar.update()
        state = read_review(store)
    opinions = (one for found in state.events for one in found.opinions if one.reviewer == name and one.verdict)
    verdicts = Counter(str(one.verdict) for one in opinions)
    print(f"{name}: {', '.join(f'{verdict} {number}' for verdict, number in verdicts.most_common())}")
    for one in measure_programs(state):
        if one.reviewer == name and one.agreement.num_items:
            print(f"with people: {one.agreement.num_items} events, kappa {one.agreement.kappa:.3f}")
            print(describe_calibration(one))
    for problem in problems:
        print(f"no verdict: {problem}", file=sys.stderr)
    return 1 if problems else 0
