"""The rule language: documents, compiler, operators, relations, engine, examples. Knows no single rule."""
