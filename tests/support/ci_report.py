"""Skipped and repeated tests in CI.

Each skipped test is counted, and one that is skipped for a reason not listed here fails the run. A test that fails is
tried once more, since a busy machine orders events in a way that no other run does; each first failure is printed, to
be mended, and more than ``MAX_REPEATED`` of them fail the run.
"""

import os
import re

import pytest

EXPECTED = (
    r"the extra 'ray' is not installed",
    r"pyarrow is not installed|the datasets library is not installed",
    r"the real videos are not beside this checkout|is not here$",
    r"is not there; set STEPSCOPE_SHARED",
    r"a small (file system|disk) cannot be mounted here",
    r"no decord here",
)
"""What CI machines lack. Chromium and PostgreSQL are not among it: CI installs both."""
MAX_REPEATED = 5
"""First failures in a run, beyond which passing at the second attempt is no excuse."""


def unexpected_skips(reasons: list[str]) -> list[str]:
    """Return the reasons, without ``Skipped: ``, that no pattern of ``EXPECTED`` matches."""
    plain = [reason.removeprefix("Skipped: ") for reason in reasons]
    return [reason for reason in plain if not any(re.search(pattern, reason) for pattern in EXPECTED)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Print what was skipped or repeated; with ``STEPSCOPE_CI`` set, fail for what CI must run or is repeated often."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if "STEPSCOPE_CI" not in os.environ or reporter is None or hasattr(session.config, "workerinput"):
        return
    reasons = [str(report.longrepr[2]) for report in reporter.stats.get("skipped", ())]
    unexpected = unexpected_skips(reasons)
    reporter.write_line(
        f"\n{len(reasons)} tests skipped, {len(unexpected)} of them for a reason that CI does not expect"
    )
    for reason in sorted(set(unexpected)):
        reporter.write_line(f"  unexpected skip: {reason}")
    repeated = reporter.stats.get("rerun", ())
    for report in repeated:
        reporter.write_sep("_", f"first failure of {report.nodeid}")
        reporter.write_line(report.longreprtext)
    reporter.write_line(f"{len(repeated)} tests failed once and were repeated; {MAX_REPEATED} may be")
    if (unexpected or len(repeated) > MAX_REPEATED) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
