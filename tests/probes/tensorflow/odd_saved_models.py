"""Write SavedModels that no audit can carry as they are, each for one reason; run by an interpreter with TensorFlow."""

import sys
from pathlib import Path

import tensorflow as tf

HOME = Path(sys.argv[1])
VECTOR = tf.TensorSpec([None], tf.float32, name="x")


def save(name, function, *specs, **parts):
    module = tf.Module()
    module.f = tf.function(function, input_signature=specs)
    for key, part in parts.items():
        setattr(module, key, part)
    tf.saved_model.save(module, str(HOME / name), signatures=module.f.get_concrete_function())


class Several(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def first(self, x):
        return {"a": x + 1}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def second(self, x):
        return {"b": x + 2}


class Nested(tf.Module):
    """Reads a file in a loop, in a function, in a branch."""

    @tf.function(input_signature=[VECTOR])
    def f(self, x):
        @tf.function
        def deep():
            def body(i, total):
                return i + 1, total + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)

            return tf.while_loop(lambda i, total: i < 2, body, [0, 0.0])[1]

        return {"y": x + tf.cond(tf.reduce_sum(x) > 0, deep, lambda: 0.0)}


def wide(x):
    integers = tf.cast(x, tf.int64) * 2**40
    return {"i": integers, "h": tf.cast(x, tf.float16), "b": tf.cast(x, tf.bfloat16), "none": x[:0]}


def main():
    save("text_in", lambda t: {"n": tf.strings.length(t)}, tf.TensorSpec([None], tf.string, name="t"))
    save("text_out", lambda x: {"s": tf.strings.as_string(x), "y": x * 2}, VECTOR)
    handle = tf.TensorSpec([], tf.resource, name="h")
    read = tf.raw_ops.ReadVariableOp
    save("resource_in", lambda h, x: {"y": read(resource=h, dtype=tf.float32) + x}, handle, VECTOR)
    scalar = tf.constant([], tf.int32)
    as_list = tf.raw_ops.TensorListFromTensor
    save("list_out", lambda x: {"l": as_list(tensor=x, element_shape=scalar), "y": x}, VECTOR)
    save("ragged_out", lambda x: tf.RaggedTensor.from_row_lengths(x, [1, 2]), VECTOR)
    save("sparse_out", tf.sparse.from_dense, VECTOR)
    save("any_rank", lambda x: {"y": x * 2}, tf.TensorSpec(None, tf.float32, name="x"))
    names = [tf.TensorSpec([None], tf.float32, name=name) for name in ("in.1", "in/2")]
    save("odd_names", lambda a, b: {"y.1": a - b}, *names)
    save("no_names", lambda a, b: (a + b, a - b), *[tf.TensorSpec([None], tf.float32)] * 2)
    save("wide", wide, VECTOR)
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([5.0, 7.0]))
    table = tf.lookup.StaticHashTable(pairs, -1.0)
    save("table", lambda x: {"y": table.lookup(x)}, tf.TensorSpec([None], tf.int64, name="x"), table=table)
    several = Several()
    tf.saved_model.save(several, str(HOME / "several"), signatures={"zeta": several.first, "beta": several.second})
    tf.saved_model.save(several, str(HOME / "no_signature"), signatures={})
    nested = Nested()
    tf.saved_model.save(nested, str(HOME / "nested"), signatures=nested.f)


if __name__ == "__main__":
    main()
