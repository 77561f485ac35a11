"""A model audited against itself under another interpreter: two environments that differ in one small package."""

import json
import site
import sys
import venv

import pytest

from tensoraudit.api import scan

pytestmark = pytest.mark.slow

MODEL = """
import torch
from stub_numbers import FACTOR


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.fc = torch.nn.Linear(7, 5)

    def forward(self, x):
        return torch.relu(self.fc(x)) * FACTOR


def sample_inputs():
    return (torch.linspace(-1, 1, 21).reshape(3, 7),)
"""


def environment(folder, version, factor):
    """A virtual environment that sees this one's packages, and has a package of its own in front of them."""
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "all.pth").write_text("\n".join(site.getsitepackages()))
    (packages / "stub_numbers.py").write_text(f"FACTOR = {factor}\n")
    about = packages / f"stub_numbers-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stub-numbers\nVersion: {version}\n")
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    folder = tmp_path_factory.mktemp("environments")
    sides = {"old": ("1.0", 2.0), "same": ("1.1", 2.0), "changed": ("2.0", 2.002)}
    return {name: environment(folder / name, *side) for name, side in sides.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "net.py"
    path.write_text(MODEL)
    return f"{path}:Net"


def packages(report):
    return {each["name"]: (each["old"], each["new"]) for each in report["settings"]["upgrade"]["packages"]}


def test_an_upgrade_that_changes_nothing_passes_and_names_what_differs(model, pythons):
    report = scan(model, python={"source": pythons["old"], "target": pythons["same"]})
    assert (report["targets"], report["grade"], report["exit_code"]) == (["pytorch"], {"pytorch": "A"}, 0)
    rows = [row for row in report["equivalence"] if row["candidate"] == "upgrade@pytorch/cpu"]
    assert {row["verdict"] for row in rows} == {"identical"}
    assert {row["inputs"] for row in rows} >= {"sample-0", "random-0", "batch=5"}
    assert packages(report) == {"stub-numbers": ("1.0", "1.1")}
    assert "packages that differ between the two sides: stub-numbers 1.0 -> 1.1" in report["notes"]


def test_an_upgrade_that_changes_results_is_found(model, pythons):
    report = scan(model, python={"source": pythons["old"], "target": pythons["changed"]})
    assert report["grade"]["pytorch"] in {"D", "F"} and report["exit_code"] == 1
    rows = [row for row in report["equivalence"] if row["inputs"] == "sample-0"]
    assert {row["verdict"] for row in rows} <= {"drift", "break"} and rows
    assert packages(report) == {"stub-numbers": ("1.0", "2.0")}
    json.dumps(report)


def test_one_side_alone_is_held_against_the_framework_s_interpreter(model, pythons):
    report = scan(model, target="pytorch", python={"pytorch": pythons["old"], "target": pythons["old"]})
    assert report["grade"] == {"pytorch": "A"}
    assert any("same packages in the same versions" in note for note in report["notes"])


def test_a_side_that_does_not_start_leaves_it_open(model, pythons):
    report = scan(model, python={"source": pythons["old"], "target": "/nowhere/python"})
    assert report["grade"]["pytorch"].endswith("?") and report["exit_code"] == 3
