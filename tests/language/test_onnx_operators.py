"""The table of ONNX's operators against the schemas of the installed package; run as a program it writes the table."""

import json
from importlib.resources import files

from onnx import defs


def schemas():
    """Domain to operator to [first opset, opset that deprecates it, attributes of every version]."""
    table = {}
    for schema in defs.get_all_schemas_with_history():
        row = table.setdefault(schema.domain, {}).setdefault(schema.name, [schema.since_version, None, []])
        row[0] = min(row[0], schema.since_version)
        row[1] = schema.since_version if schema.deprecated else row[1]
        row[2] = sorted({*row[2], *schema.attributes})
    return {domain: dict(sorted(rows.items())) for domain, rows in sorted(table.items())}


def test_the_table_holds_what_the_package_knows():
    """An older onnx knows less; a newer one fails here until the table is written anew."""
    table = json.loads((files("tensoraudit.language") / "onnx_operators.json").read_text(encoding="utf-8"))
    for domain, operators in schemas().items():
        for name, (since, _, attributes) in operators.items():
            assert table[domain][name][0] == since, name
            assert set(attributes) <= set(table[domain][name][2]), name


if __name__ == "__main__":
    domains = []
    for domain, operators in schemas().items():
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in operators.items())
        domains.append(f" {json.dumps(domain)}: {{\n{rows}\n }}")
    print("{\n" + ",\n".join(domains) + "\n}")
