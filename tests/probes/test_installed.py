from importlib import metadata
from platform import python_version

from tensoraudit.probes.installed import installed
from tensoraudit.probes.protocol import LocalSession


def test_every_distribution_under_its_normal_name(tmp_path):
    packages = installed({}, LocalSession(tmp_path))["packages"]
    assert packages["numpy"] == metadata.version("numpy")
    assert packages["python"] == python_version()
    assert list(packages) == sorted(packages)
    assert all(name == name.lower() and "_" not in name for name in packages)


def test_the_first_on_the_path_counts(tmp_path, monkeypatch):
    for place, version in (("first", "1.5"), ("second", "9")):
        about = tmp_path / place / f"Two_Of.it-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: Two_Of.it\nVersion: {version}\n")
    monkeypatch.setattr("sys.path", [str(tmp_path / "first"), str(tmp_path / "second")])
    assert installed({}, LocalSession(tmp_path))["packages"]["two-of-it"] == "1.5"
