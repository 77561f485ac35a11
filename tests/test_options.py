import pytest

from tensoraudit.errors import ConfigError
from tensoraudit.options import Options, make_options, parse_interpreters, parse_memory


def test_command_line_wins_over_pyproject_and_that_over_defaults(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.tensoraudit]\nopset = 18\nfail-on = "low"\n')
    options = make_options({"opset": 20, "via": None}, folder=tmp_path)
    assert (options.opset, options.fail_on, options.device) == (20, "low", Options().device)


def test_a_pyproject_above_the_folder_is_found(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.tensoraudit]\nseed = 7\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert make_options({}, folder=inner).seed == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"target": "onyx"}, "Did you mean onnx"),
        ({"device": "gpu"}, "cpu, cuda, all"),
        ({"via": ""}, "'' is no name"),
        ({"fail_on": "severe"}, "critical, high, medium, low, never"),
        ({"tolerance": -1.0}, "positive"),
        ({"tolerance": float("inf")}, "positive"),
        ({"timeout": "soon"}, "positive"),
        ({"opset": 0}, "positive"),
        ({"memory": "lots"}, "8GiB"),
        ({"python": ["pytorch"]}, "FRAMEWORK=PATH"),
        ({"opsett": 17}, "Did you mean 'opset'"),
        ({"seed": "x"}, "whole number"),
        ({"seed": float("inf")}, "whole number"),
        ({"opset": float("inf")}, "positive"),
        ({"memory": "9" * 400}, "8GiB"),
        ({"baseline": 5}, "5 is no name"),
        ({"model": ""}, "'' is no name"),
        ({"cache": "no"}, "neither true nor false"),
        ({"quiet": 1}, "neither true nor false"),
        ({"root": "/"}, "no option 'root'"),
    ],
)
def test_a_wrong_option_says_what_to_write(given, says, tmp_path):
    with pytest.raises(ConfigError) as error:
        make_options(given, folder=tmp_path)
    assert says in str(error.value)


def test_a_broken_pyproject_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.tensoraudit\n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml"):
        make_options({}, folder=tmp_path)


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\ntensoraudit = 5", "x = " + "[" * 5000])
def test_a_pyproject_of_another_shape_is_named(text, tmp_path):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"pyproject\.toml"):
        make_options({}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "size"), [("8GiB", 8 * 2**30), ("512M", 512 * 2**20), ("1.5g", 3 * 2**29), (2**30, 2**30)]
)
def test_memory_is_read_in_binary_units(text, size):
    assert parse_memory(text) == size


def test_interpreters_come_as_pairs_or_as_a_table():
    assert parse_interpreters(["pytorch=/a/python", "source=/b"]) == {"pytorch": "/a/python", "source": "/b"}
    assert parse_interpreters({"pytorch": "/a/python"}) == {"pytorch": "/a/python"}
