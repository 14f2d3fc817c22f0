"""The notebook, executed: every cell runs, and gives the outputs that are committed.

The cells need no kernel: they are Python, run one after another as a notebook runs them. `KVSET_WRITE_NOTEBOOK=1` writes the
outputs that they give.
"""

import ast
import contextlib
import importlib.util
import io
import json
import os
import unittest
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "size.ipynb"
NEEDS = ("pandas", "matplotlib")


def outputs_of(source, names, count):
    """What a cell gives, in the notebook's form: what it prints, and the value of a last expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {count}", "exec"), names)  # noqa: S102
        value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names) if last else None  # noqa: S307
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/html": lines(value._repr_html_())} if hasattr(value, "_repr_html_") else {}
        data["text/plain"] = lines(repr(value))
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def lines(text):
    return text.splitlines(keepends=True)


class Notebook(unittest.TestCase):
    @unittest.skipUnless(all(importlib.util.find_spec(name) for name in NEEDS), "needs pandas and matplotlib")
    def test_every_cell_runs_and_gives_what_is_committed(self):
        os.environ["MPLBACKEND"] = "Agg"
        notebook = json.loads(NOTEBOOK.read_text())
        self.assertEqual((notebook["nbformat"], notebook["nbformat_minor"]), (4, 5))
        names, count = {"__name__": "__main__"}, 0
        for cell in notebook["cells"]:
            self.assertTrue(cell["id"])
            if cell["cell_type"] != "code":
                continue
            count += 1
            given = outputs_of("".join(cell["source"]), names, count)
            if os.environ.get("KVSET_WRITE_NOTEBOOK"):
                cell["outputs"], cell["execution_count"] = given, count
            self.assertEqual(cell["outputs"], given, f"cell {count}: KVSET_WRITE_NOTEBOOK=1 writes what it gives")
            self.assertEqual(cell["execution_count"], count)
        self.assertGreater(count, 4)
        if os.environ.get("KVSET_WRITE_NOTEBOOK"):
            NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    unittest.main()
