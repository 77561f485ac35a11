"""Real ONNX models on their way to PyTorch, TensorFlow and JAX: grades, the worst verdict of each, the reasons.

    python bench/real_targets.py [MODEL ...]

The converters run in the interpreter that TENSORAUDIT_TF_PYTHON names, by default that of `make test`. Each audit takes
a minute or more; none may end in a traceback or with exit code 4, which this script answers with exit code 1.
"""

import os
import sys
import time
import traceback
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import tensoraudit

ROOT = Path(__file__).resolve().parents[1]
PYTHON = os.environ.get("TENSORAUDIT_TF_PYTHON") or str(ROOT / ".venv-frameworks/bin/python")
MODELS = {
    "magika": ("magika", "models/standard_v3_3/model.onnx"),
    "nudenet": ("nudenet", "320n.onnx"),
    "pp-ocr cls": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "pp-ocr det": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"),
    "pp-ocr rec": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
}
TARGETS = ("pytorch", "tensorflow", "jax")
RANK = ("identical", "equivalent", "noise", "drift", "break")
INTERNAL_FAULT = 4


def path_of(name):
    """The model's file, without importing its package."""
    package, file = MODELS[name]
    return Path(find_spec(package).submodule_search_locations[0]) / file


def audit(path):
    python = dict.fromkeys(TARGETS, PYTHON)
    return tensoraudit.scan(path, target=",".join(TARGETS), python=python)


def worst(report, target):
    """The worst row of the shipped candidate: what its finding speaks of."""
    shipped = next(row["route"] for row in report["conversions"] if row["target"] == target and row["ships"])
    rows = [row for row in report["equivalence"] if row["target"] == target and row["candidate"].startswith(shipped)]
    judged = [row for row in rows if row["verdict"] in RANK]
    counts = Counter(row["verdict"] for row in rows)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return summary, max(judged, key=lambda row: (RANK.index(row["verdict"]), row["error_ratio"] or 0), default=None)


def show(name, report, seconds):
    print(f"{name}: {seconds:.0f} s, exit code {report['exit_code']}", flush=True)
    for target in TARGETS:
        shipped = next(row for row in report["conversions"] if row["target"] == target and row["ships"])
        summary, row = worst(report, target)
        print(
            f"  {target:11}{report['grade'][target]:3} {shipped['route']} {shipped['status']}; {summary or 'not run'}"
        )
        if row:
            print(f"{'':18}worst {row['tensor']} at {row['inputs']}: {row['reason']}")
        for finding in report["findings"]:
            if finding["target"] == target and finding["state"] not in {"refuted", "advice"}:
                print(f"{'':18}{finding['rule']} {finding['severity']} {finding['state']}: {finding['message'][:300]}")


def main(names):
    failed = False
    for name in names:
        clock = time.monotonic()
        try:
            report = audit(path_of(name))
        except Exception:
            failed = True
            print(f"{name}: TRACEBACK after {time.monotonic() - clock:.0f} s")
            traceback.print_exc()
            continue
        show(name, report, time.monotonic() - clock)
        failed |= report["exit_code"] == INTERNAL_FAULT or set(report["grade"]) != set(TARGETS)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(MODELS)))
