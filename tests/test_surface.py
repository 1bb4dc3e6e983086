"""What the packages export, and the tree of errors: public names that users rely on."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import flip27_stream
import watermark_alignment
from flip27_stream import api, errors, reader, testing


def test_exported_names_exist_and_are_documented() -> None:
    for module in (flip27_stream, api, testing, watermark_alignment):
        for name in module.__all__:
            exported = getattr(module, name)
            if inspect.isclass(exported) or inspect.isfunction(exported):
                assert has_docstring(exported), f"{module.__name__}.{name}"


def has_docstring(exported: Any) -> bool:
    """Returns whether the source has a docstring. Python itself gives dataclasses and named tuples a ``__doc__``."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(exported))).body
    return isinstance(definition, ast.ClassDef | ast.FunctionDef) and bool(ast.get_docstring(definition))


def test_the_model_has_the_names_of_flip_27() -> None:
    source = {"boundedness", "create_reader", "create_enumerator", "restore_enumerator", "split_serializer"}
    assert source | {"enumerator_checkpoint_serializer"} <= set(dir(api.Source))
    context = {"assign_splits", "registered_readers", "current_parallelism", "call_async", "metric_group"}
    assert context | {"send_event_to_source_reader"} <= set(dir(api.SplitEnumeratorContext))


def test_the_second_name_of_the_bound_on_plausible_times_is_read() -> None:
    assert api.PositioningRequest(plausible_until=5).latest_plausible == 5


ERRORS = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, errors.Flip27Error)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: str(e.__name__))
def test_errors_are_in_the_tree_and_picklable(error: type[errors.Flip27Error]) -> None:
    assert error.__name__ in (errors.__doc__ or "")
    copy = pickle.loads(pickle.dumps(error("what, value, what to do")))
    assert (type(copy), str(copy)) == (error, "what, value, what to do")


@pytest.mark.parametrize("package", [api, reader], ids=lambda package: str(package.__name__))
def test_something_uses_every_method_of_the_model(package: ModuleType) -> None:
    """Each public method is called outside the package, by its base classes, or in an example or a page."""
    root = Path(__file__).parents[1]
    code = [
        path.read_text() for folder in ("flip27_stream", "examples") for path in (root / folder).rglob("*.py")
    ]
    text = "\n".join([*code, *(page.read_text() for page in (root / "docs").glob("*.md"))])
    unused = [
        f"{name}.{method}"
        for name in package.__all__
        if inspect.isclass(getattr(package, name))
        for method, value in vars(getattr(package, name)).items()
        if inspect.isfunction(value) and not method.startswith("_") and not re.search(rf"\.{method}\b", text)
    ]
    assert unused == []
