"""What tf.train.Checkpoint.restore matches, and says. Run with FOLDER; the last line of stdout is JSON."""

import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

try:
    import tensorflow as tf
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)

FOLDER = Path(sys.argv[1])


class Saved(tf.Module):
    def __init__(self):
        self.dense, self.b = tf.Variable(tf.ones(3)), tf.Variable(tf.ones(2))


class Renamed(tf.Module):
    def __init__(self):
        self.fc, self.b = tf.Variable(tf.zeros(3)), tf.Variable(tf.zeros(2))


class Other(tf.Module):
    def __init__(self):
        self.dense = tf.Variable(tf.zeros(5))


def restored(keyword, module, path):
    """The status' class, what it asserts, and which attributes changed. All of them start at 0."""
    for each in module.variables:
        each.assign(tf.zeros_like(each))
    try:
        status = tf.train.Checkpoint(**{keyword: module}).restore(path)
    except Exception as error:
        return {"error": type(error).__name__}
    row = {"status": type(status).__name__}
    for check in ("assert_existing_objects_matched", "assert_consumed"):
        try:
            getattr(status, check)()
            row[check] = "passes"
        except Exception as error:
            row[check] = type(error).__name__
    named = {name: each for name, each in vars(module).items() if isinstance(each, tf.Variable)}
    return {**row, "changed": {name: bool(each.numpy().any()) for name, each in named.items()}}


path = tf.train.Checkpoint(model=Saved()).save(str(FOLDER / "c"))
rows = {
    "same": restored("model", Saved(), path),
    "renamed": restored("model", Renamed(), path),
    "keyword": restored("net", Renamed(), path),
    "nothing": restored("model", Renamed(), tf.train.latest_checkpoint(str(FOLDER / "empty"))),
    "shape": restored("model", Other(), path),
    "latest": tf.train.latest_checkpoint(str(FOLDER / "empty")),
}
print(json.dumps(rows))
