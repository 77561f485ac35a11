"""Print the signatures of functions as JSON, in an interpreter that has their packages; run by test_signatures.py.

    python installed_signatures.py NAME...

{name: null where there is none, else [positional parameters, {parameter: [whether it is plain, its default]}]}
"""

import importlib
import inspect
import json
import sys

PLAIN = (bool, int, float, str, type(None))


def found(name):
    parts = name.replace("()", "").split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = getattr(value, part, None)
        return value
    return None


def described(name):
    value = found(name)
    if value is None:
        return None
    parameters = inspect.signature(value).parameters.values()
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    told = {key: [isinstance(d, PLAIN), d if isinstance(d, PLAIN) else str(d)] for key, d in defaults.items()}
    return [names[1:] if "()" in name else names, told]


if __name__ == "__main__":
    print(json.dumps({name: described(name) for name in sys.argv[1:]}))
