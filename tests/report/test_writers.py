from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tensoraudit.errors import ConfigError, UserError
from tensoraudit.report import writers
from tensoraudit.report.style import Style
from tensoraudit.report.writers import FORMATS, check_reports, parse_specs, terminal_style, write_out, write_reports


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_formats_of_the_command_line():
    assert list(FORMATS) == ["console", "json", "sarif", "junit", "html", "markdown"]


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_writes_a_file(rich_result, tmp_path, name):
    path = tmp_path / f"out.{name}"
    write_reports(rich_result, [f"{name}={path}"])
    assert "EQV-001" in path.read_text(encoding="utf-8")
    assert names_in(tmp_path) == [path.name]


def test_standard_output_and_files_together(rich_result, tmp_path, capsys):
    write_reports(rich_result, ["console", f"json={tmp_path / 'a.json'}"], quiet=True, color=False)
    assert "Do not ship" in capsys.readouterr().out
    assert json.loads((tmp_path / "a.json").read_text())["exit_code"] == 1


def test_unknown_format_names_the_known_ones_and_writes_nothing(rich_result, tmp_path):
    with pytest.raises(ConfigError) as error:
        write_reports(rich_result, [f"json={tmp_path / 'a.json'}", "jsno"])
    assert str(error.value) == (
        "--report: 'jsno' is no format. Did you mean json? Use one of console, json, sarif, junit, html, markdown."
    )
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("spec", ["", "JSON", "xml=out.xml", "=a"])
def test_other_wrong_formats(spec):
    with pytest.raises(ConfigError, match="is no format"):
        parse_specs([spec])


def test_format_with_an_equals_sign_and_no_file():
    with pytest.raises(ConfigError, match=r"'json=' names no file\. Write json=FILE"):
        parse_specs(["json="])


def test_file_names_may_hold_equals_signs():
    assert str(parse_specs(["json=a=b.json"])[0].path) == "a=b.json"


@pytest.mark.parametrize(("specs", "where"), [(["json", "console"], "standard output"), (["json=a", "sarif=./a"], "a")])
def test_two_reports_in_one_place(specs, where):
    with pytest.raises(ConfigError, match=f"two reports go to .*{where}"):
        parse_specs(specs)


@pytest.mark.parametrize("kind", ["no folder", "a folder", "below a file"])
def test_path_that_cannot_be_written(rich_result, tmp_path, kind):
    (tmp_path / "file").write_text("x")
    path = {
        "no folder": tmp_path / "gone" / "a.json",
        "a folder": tmp_path,
        "below a file": tmp_path / "file" / "a.json",
    }[kind]
    for attempt in (lambda: write_reports(rich_result, [f"json={path}"]), lambda: check_reports([f"json={path}"])):
        with pytest.raises(UserError) as error:
            attempt()
        assert error.value.where == str(path)
        assert "the report cannot be written" in error.value.message
        assert error.value.remedy
    assert names_in(tmp_path) == ["file"]


def test_full_disk_leaves_the_old_file_and_no_draft(rich_result, tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text("old")

    class Full(io.FileIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writers.os, "fdopen", lambda descriptor, mode: Full(descriptor, "wb"))
    with pytest.raises(UserError, match="No space left on device"):
        write_reports(rich_result, [f"json={path}"])
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["a.json"]


def test_interruption_leaves_no_draft(rich_result, tmp_path, monkeypatch):
    def interrupt(descriptor, mode):
        os.close(descriptor)
        raise KeyboardInterrupt

    monkeypatch.setattr(writers.os, "fdopen", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_reports(rich_result, [f"json={tmp_path / 'a.json'}"])
    monkeypatch.undo()
    assert names_in(tmp_path) == []


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(rich_result, tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("x")
    old.chmod(0o640)
    mask = os.umask(0o022)
    try:
        write_reports(rich_result, [f"json={old}", f"html={new}"])
    finally:
        os.umask(mask)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o644


def test_links_are_followed_and_devices_written_to(rich_result, tmp_path):
    (tmp_path / "real.json").write_text("x")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write_reports(rich_result, [f"json={tmp_path / 'link.json'}", f"html={os.devnull}"])
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())
    assert not Path(os.devnull).is_file()


def test_stream_of_another_encoding_gets_what_it_can_hold():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write_out("grade █ ü \n", stream)
    assert stream.buffer.getvalue() == b"grade \\u2588 \\xfc \n"
    assert terminal_style(Style(), stream, color=True).unicode is False


def test_stream_that_is_no_terminal_has_no_colours(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    style = terminal_style(Style(), io.StringIO(), color=True)
    assert (style.colors, style.width) == (None, 100)


def test_no_color_wins_over_everything(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert terminal_style(Style(), io.StringIO(), color=True).colors is not None
    assert terminal_style(Style(), io.StringIO(), color=False).colors is None
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal_style(Style(), io.StringIO(), color=True).colors is None


def test_reader_that_goes_away_is_no_error():
    program = "import sys; from tensoraudit.report.writers import write_out; write_out('x' * 10_000_000, sys.stdout)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_check_before_an_audit_accepts_what_can_be_written(tmp_path):
    check_reports(["console", f"json={tmp_path / 'a.json'}"])
    assert names_in(tmp_path) == []
