from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.torch_export import (
    is_exported_program,
    is_plain_expression,
    layout_of,
    program_entry,
    wishes_of_exported_program,
)  # fmt: skip
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.mask = torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * self.mask).reshape(x.shape[0] * 2)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ep") / "model.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Model(), (torch.ones(4, 3),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    return path


def rewritten(path: Path, changes: dict[str, Any]) -> SafeZip:
    out = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            name = info.filename.partition("/")[2]
            content = source.read(info)
            target.writestr(info.filename, changes.pop(name, lambda data: data)(content))
        prefix = source.namelist()[0].partition("/")[0]
        for name, make in changes.items():
            target.writestr(f"{prefix}/{name}", make(b""))
    return SafeZip(memoryview(out.getvalue()), "model.pt2")


def test_what_torch_exports_asks_for_nothing_foreign(exported: Path) -> None:
    artifact = identify(str(exported))
    assert (artifact.format, artifact.framework, artifact.imports) == ("exported_program", "pytorch", ())
    assert artifact.details["layout"] == "pt2"
    archive = SafeZip(memoryview(exported.read_bytes()), "m")
    assert program_entry(archive) == "models/model.json"
    assert b"expr_str" in archive.read("models/model.json"), "the model has a symbolic size to look at"


def test_the_older_layout(make: ModuleType) -> None:
    entries = [
        ("version", b"8.2"), ("serialized_exported_program.json", b"{}"), ("serialized_state_dict.pt", b""),
        ("serialized_constants.pt", make.torch_zip(b"\x80\x02" + make.SYSTEM + b".")),
        ("serialized_example_inputs.pt", b""),
    ]  # fmt: skip
    archive = SafeZip(memoryview(make.zipped(entries)), "old.pt2")
    assert is_exported_program(archive) and layout_of(archive) == "json"
    assert program_entry(archive) == "serialized_exported_program.json"
    assert wishes_of_exported_program(archive) == ("posix.system",)


def use_pickle(content: bytes) -> bytes:
    config = json.loads(content)
    for payload in config["config"].values():
        payload["use_pickle"] = True
    return json.dumps(config).encode()


@pytest.mark.parametrize(
    "place",
    ["data/sample_inputs/model.pt", "data/weights/model.pt", "data/constants/model.pt", "data/constants/opaque_obj_0",
     "DATA/Constants/Opaque_Obj_1", "data/sample_inputs/other.PT"],
)  # fmt: skip
def test_every_place_that_is_unpickled(exported: Path, make: ModuleType, place: str) -> None:
    evil = make.torch_zip(b"\x80\x02" + make.SYSTEM + b".")
    for pickled in (evil, b"\x80\x02" + make.SYSTEM + b".", make.LEGACY_HEAD + b"\x80\x02" + make.SYSTEM + b"."):
        archive = rewritten(exported, {place: lambda _, pickled=pickled: pickled})
        assert "posix.system" in wishes_of_exported_program(archive)


def test_weights_that_the_configuration_calls_pickled(exported: Path, make: ModuleType) -> None:
    evil = make.torch_zip(b"\x80\x02" + make.SYSTEM + b".")
    plain = rewritten(exported, {"data/weights/weight_0": lambda _: evil})
    assert "posix.system" not in wishes_of_exported_program(plain), "raw weights are never unpickled"
    changes = {"data/weights/weight_0": lambda _: evil, "data/weights/weight_1": lambda _: evil,
               "data/weights/model_weights_config.json": use_pickle}  # fmt: skip
    assert "posix.system" in wishes_of_exported_program(rewritten(exported, changes))


def test_damage_inside_is_said_with_its_place(exported: Path) -> None:
    archive = rewritten(exported, {"data/sample_inputs/model.pt": lambda data: b"garbage"})
    with pytest.raises(InputError, match=r"model.pt2: data/sample_inputs/model.pt: holds a damaged"):
        wishes_of_exported_program(archive)
    deep = rewritten(exported, {"models/model.json": lambda data: b"[" * 200_000})
    with pytest.raises(InputError, match="is no JSON"):
        wishes_of_exported_program(deep)


@pytest.mark.parametrize(
    "text",
    ["s0", "2*s0 + 1", "Mul(Integer(2), Symbol('s77', positive=True, integer=True))",
     "Max(1, s0)", "Mod(s77, 8)", "floor(s0/2)", "(s0 + 1)//2", "Eq(s0, 3) & (s1 <= 4.5)", "u0",
    "-1e3",      "FloorDiv(s0, 2)*ceiling(0.5)", "True", ""],
)  # fmt: skip
def test_arithmetic_is_plain(text: str) -> None:
    assert is_plain_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "open('pwned', 'w')", "exit()", "s0.func", "().__class__", "[x for x in s0]",
        "lambda: 0", "eval (s0)", "Symbol('a b')", "Integer('f()')", "'a'.x", "exec('a')", "input()",
        "breakpoint()", "s0 .x", "Max(1).subs(s0)", "f'{s0}'", "Symbol(chr(1))", "a" * 20_000,
    "a(" * 4_000,
    "(exit)()",
    "Max(exit)",
    "s0 (exit)",
    "exit",
    "1or exit()",
    "0xfor exit()",
    "ﬁle(1)",
    "S.a",
    ],
)  # fmt: skip
def test_anything_else_is_not(text: str) -> None:
    assert not is_plain_expression(text)


def test_torch_does_evaluate_symbolic_sizes(exported: Path, tmp_path: Path) -> None:
    """Why expressions are looked at: shown on torch, with one that only leaves a file behind in the test's folder."""
    archive_bytes = io.BytesIO()
    mark = tmp_path / "evaluated"
    evil = f"__import__('pathlib').Path('{mark}').touch() or 4"

    def change(content: bytes) -> bytes:
        def walk(node: Any) -> Any:
            if isinstance(node, dict):
                return {k: evil if k == "expr_str" else walk(v) for k, v in node.items()}
            return [walk(each) for each in node] if isinstance(node, list) else node

        return json.dumps(walk(json.loads(content))).encode()

    changed = rewritten(exported, {"models/model.json": change})
    assert any(name.startswith("sympify(") for name in wishes_of_exported_program(changed))
    archive_bytes.write(bytes(changed._view))
    archive_bytes.seek(0)
    with pytest.raises(Exception):
        torch.export.load(archive_bytes)
    assert mark.exists()
