"""The exact versions that make installs are within the ranges of the package; the lowest ones are their lower ends."""

import tomllib

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.paths import ROOT

NOT_PINNED = {"ray", "trackio"}  # a cluster has its own version; a tracker is installed beside


def read_versions(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {package: version for package, _, version in (line.partition("==") for line in lines if line[0] != "#")}


def test_the_lowest_versions_are_the_lower_ends_of_the_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {wanted.name: wanted.specifier for wanted in map(Requirement, project["dependencies"])}
    for package, version in read_versions("lowest.txt").items():
        (lower,) = [bound.version for bound in ranges[package] if bound.operator == ">="]
        assert Version(version).release[:2] == Version(lower).release[:2], package


def test_every_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    pinned = read_versions("constraints.txt")
    wrong = [
        str(wanted)
        for wanted in map(Requirement, [*project["dependencies"], *extras])
        if wanted.name.lower() not in NOT_PINNED and not wanted.specifier.contains(pinned.get(wanted.name.lower(), "0"))
    ]
    assert wrong == []
    assert pinned["torch"] == "2.13.0"
