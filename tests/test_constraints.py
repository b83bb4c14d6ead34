"""The exact versions that make installs are within the ranges of the package, and cover its dependencies."""

import tomllib

from packaging.requirements import Requirement

from tests.support.paths import ROOT

NOT_PINNED = {"ray"}  # a cluster has its own version


def test_every_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {name: version for name, _, version in (line.partition("==") for line in lines if line[0] != "#")}
    wrong = [
        str(wanted)
        for wanted in map(Requirement, [*project["dependencies"], *extras])
        if wanted.name.lower() not in NOT_PINNED and not wanted.specifier.contains(pinned.get(wanted.name.lower(), "0"))
    ]
    assert wrong == []
    assert pinned["torch"] == "2.13.0"
