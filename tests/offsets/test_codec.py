"""The offset document: canonical text, versions, and what is refused (facts 5 to 9)."""

from __future__ import annotations

import copy
import json
import pickle
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from flip27_stream.errors import (
    CheckpointError,
    CorruptCheckpointError,
    ForeignCheckpointError,
    NewerCheckpointError,
)
from offsets import FORMAT_VERSION, INITIAL, MARKER, Offset, OffsetCodec, SplitState

FINGERPRINT = "kafka subscribe=clicks,views"
FIXTURE = Path(__file__).parent / "fixtures" / "offset-v1.json"


@dataclass(frozen=True)
class ShardSplit(SourceSplit):
    """A split with an id, and in some cases an origin to remember."""

    name: str
    origin: str | None = None

    @property
    def split_id(self) -> str:
        return self.name

    def between(self, start: int, end: int) -> ShardSplit:
        return self


class ShardSerializer(SimpleVersionedSerializer[ShardSplit]):
    """Version 0 wrote ``name``; version 1 writes ``{"origin", "name"}`` for a split that has an origin."""

    version = 1

    def serialize(self, value: ShardSplit) -> JsonValue:
        return value.name if value.origin is None else {"origin": value.origin, "name": value.name}

    def deserialize(self, version: int, data: JsonValue) -> ShardSplit:
        if isinstance(data, str):
            return ShardSplit(data)
        if version == 0 or not isinstance(data, dict):
            raise CorruptCheckpointError(f"not a shard: {data!r}")
        name, origin = data["name"], data["origin"]
        if not isinstance(name, str) or not isinstance(origin, str):
            raise CorruptCheckpointError(f"not a shard: {data!r}")
        return ShardSplit(name, origin)


class NamesSerializer(SimpleVersionedSerializer[frozenset[str]]):
    """A serializer of names. Version 0 wrote text with commas between the names; version 1 writes a list."""

    version = 1

    def serialize(self, value: frozenset[str]) -> JsonValue:
        return [*sorted(value)]

    def deserialize(self, version: int, data: JsonValue) -> frozenset[str]:
        names = data.split(",") if version == 0 and isinstance(data, str) else data
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CorruptCheckpointError(f"not a list of names: {data!r}")
        return frozenset(str(name) for name in names)


ShardOffset = Offset[frozenset[str]]


ShardCodec: TypeAlias = OffsetCodec[ShardSplit, frozenset[str]]


@pytest.fixture
def codec() -> ShardCodec:
    return _codec()


def _codec() -> ShardCodec:
    return OffsetCodec(FINGERPRINT, ShardSerializer(), NamesSerializer())


def _offset(**changes: Any) -> ShardOffset:
    values: dict[str, Any] = {
        "source": FINGERPRINT,
        "lineage": "9f86d081884c7d65",
        "batch": 12,
        "enumerator": frozenset({"clicks", "views"}),
        "splits": {
            "clicks-0": SplitState(ShardSplit("clicks-0"), 4711, 1_699_999_999_999),
            "clicks-1": SplitState(ShardSplit("clicks-1"), 12, None, 1_699_999_990_000),
            "views-0": SplitState(ShardSplit("views-0", "2021"), 5),
            "views-1": SplitState(ShardSplit("views-1"), 0),
        },
        "begin": {"clicks-1": 3, "views-0": 0},
        "plausible_until": 1_700_003_600_000,
    }
    return Offset(**{**values, **changes})


def _document() -> dict[str, Any]:
    return dict(_codec().to_json(_offset()))


def _with(path: list[Any], value: Any) -> dict[str, Any]:
    document = _document()
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return document


def test_layout_is_sorted_integers_strings_and_nulls(codec: ShardCodec) -> None:
    assert json.dumps(codec.to_json(_offset())) == (
        '{"batch": 12, "enumerator": [1, ["clicks", "views"]], "flip27": 1, "lineage": "9f86d081884c7d65", '
        '"plausible_until": 1700003600000, "source": "kafka subscribe=clicks,views", "split_version": 1, '
        '"splits": {"clicks-0": [4711, 1699999999999], "clicks-1": [12, null, 1699999990000, 3], '
        '"views-0": [5, null, null, 0, {"name": "views-0", "origin": "2021"}], "views-1": [0]}}'
    )


def test_sk_35_stored_offset_of_format_version_1_is_read_for_ever(codec: ShardCodec) -> None:
    """CO-11, SK-35: a stored offset of format version 1 is read. Never regenerate the fixture, a released format."""
    assert codec.from_json(json.loads(FIXTURE.read_text())) == _offset()


def test_initial_is_a_constant_that_is_no_offset(codec: ShardCodec) -> None:
    """The initial offset is a constant without an offset. Spark asks for it often, and never logs it (fact 5)."""
    assert codec.from_json(json.loads(json.dumps(INITIAL))) is None
    assert MARKER in INITIAL


NAMES = st.text(max_size=8)
TIMES = st.none() | st.integers(-(2**63), 2**63 - 1)


@st.composite
def offsets(draw: st.DrawFn) -> ShardOffset:
    shards = draw(st.dictionaries(NAMES, st.none() | NAMES, max_size=5))
    states = {
        name: SplitState(ShardSplit(name, origin), draw(st.integers(0, 2**190)), draw(TIMES), draw(TIMES))
        for name, origin in shards.items()
    }
    moved = draw(st.sets(st.sampled_from(sorted(states)))) if states else set()
    return _offset(
        lineage=draw(st.text(min_size=1, max_size=8)),
        batch=draw(st.integers(0, 2**40)),
        enumerator=draw(st.frozensets(NAMES)),
        splits=states,
        begin={name: draw(st.integers(0, 2**70)) for name in moved},
        plausible_until=draw(TIMES),
    )


def _shuffled(value: Any, rng: random.Random) -> Any:
    """Returns the same JSON with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: _shuffled(value[key], rng) for key in keys}
    return [_shuffled(element, rng) for element in value] if isinstance(value, list) else value


@given(offsets(), st.randoms(use_true_random=False))
def test_py_12_equal_offsets_are_equal_text(offset: ShardOffset, rng: random.Random) -> None:
    """PY-12: equal offsets have equal text, after a round trip and with any order of keys: Spark compares texts."""
    codec = _codec()
    text = json.dumps(codec.to_json(offset))
    assert codec.from_json(json.loads(text)) == offset
    reordered = codec.from_json(_shuffled(json.loads(text), rng))
    assert reordered == offset
    assert reordered is not None
    assert json.dumps(codec.to_json(reordered)) == text
    other_order = _offset(
        **{field: getattr(offset, field) for field in ("lineage", "batch", "enumerator", "plausible_until")},
        splits=_shuffled(dict(offset.splits), rng),
        begin=_shuffled(dict(offset.begin), rng),
    )
    assert json.dumps(codec.to_json(other_order)) == text


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(2**64),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [path, *(place for key in keys for place in _places(value[key], (*path, key)))]


@st.composite
def mutants(draw: st.DrawFn) -> Any:
    """Returns stored documents with one to three places replaced, removed or renamed."""
    document: Any = json.loads(FIXTURE.read_text())
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_places(document)))
        if not path:
            return draw(JUNK)
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()):
            parent[path[-1]] = draw(JUNK)
        elif draw(st.booleans()) or isinstance(parent, list):
            del parent[path[-1]]
        else:
            parent[draw(st.text(max_size=5))] = parent.pop(path[-1])
        if not _places(document)[1:]:
            return document
    return document


def _read(document: Any) -> ShardOffset | CheckpointError | None:
    try:
        return _codec().from_json(document)
    except CheckpointError as error:
        return error


@given(mutants())
def test_a_mutated_document_is_read_or_refused_as_a_checkpoint_error(document: Any) -> None:
    before = copy.deepcopy(document)
    outcome = _read(document)
    assert repr(document) == repr(before)
    if isinstance(outcome, CheckpointError):
        assert "another checkpointLocation" in str(outcome)
        assert len(str(outcome)) < 1000
        assert str(pickle.loads(pickle.dumps(outcome))) == str(outcome)
    elif outcome is not None:
        assert _read(_codec().to_json(outcome)) == outcome


def test_co_11_and_ks_01_older_serializer_versions_are_read(codec: ShardCodec) -> None:
    document = _with(["enumerator"], [0, "clicks,views"]) | {"split_version": 0, "splits": {"clicks-0": [7]}}
    offset = codec.from_json(document)
    assert offset is not None
    assert offset.enumerator == {"clicks", "views"}
    assert offset.splits == {"clicks-0": SplitState(ShardSplit("clicks-0"), 7)}
    assert codec.to_json(offset)["split_version"] == 1


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        ([MARKER], 99999, ["flip27", "99999", f"up to {FORMAT_VERSION}"]),
        (["split_version"], 7, ["split 'clicks-0'", "version 7", "up to 1"]),
        (["enumerator", 0], 8, ["enumerator", "version 8", "up to 1"]),
    ],
)
def test_sk_35_and_hy_16_a_newer_version_is_refused(
    codec: ShardCodec, path: list[Any], value: int, names: list[str]
) -> None:
    with pytest.raises(NewerCheckpointError, match="another checkpointLocation") as raised:
        codec.from_json(_with(path, value))
    assert all(name in str(raised.value) for name in names)


def test_begins_of_splits_are_format_version_2(codec: ShardCodec) -> None:
    """A document with the begins of splits in earlier offsets has format version 2. Documents without them stay
    version 1, which older releases read.
    """
    offset = _offset(earlier_begins={"views-1": (0, 11), "clicks-0": (7, 3)})
    document = codec.to_json(offset)
    assert (codec.to_json(_offset())[MARKER], document[MARKER], FORMAT_VERSION) == (1, 2, 2)
    assert document["splits"]["clicks-0"] == [4711, 1699999999999, None, [7, 3]]  # type: ignore[index, call-overload]
    assert codec.from_json(json.loads(json.dumps(document))) == offset


def test_a_newer_format_is_named_even_when_nothing_else_is_understood(codec: ShardCodec) -> None:
    with pytest.raises(NewerCheckpointError, match="version 3"):
        codec.from_json({MARKER: 3, "something": "else"})


def test_another_source_is_refused_with_both_fingerprints(codec: ShardCodec) -> None:
    with pytest.raises(ForeignCheckpointError, match="Use another checkpointLocation, or the") as raised:
        codec.from_json(_with(["source"], "kafka subscribe=orders"))
    assert "'kafka subscribe=orders'" in str(raised.value)
    assert f"'{FINGERPRINT}'" in str(raised.value)


@pytest.mark.parametrize("read_max", [None, 1])
def test_an_offset_of_an_accepted_other_source_gets_the_fingerprint_to_go_on_with(
    read_max: int | None,
) -> None:
    """The codec passes on whether the offset has event times."""
    codecs = ShardSerializer(), NamesSerializer()
    taking = OffsetCodec(FINGERPRINT, *codecs, lambda began, has: f"{began} {has}" if "k" in began else None)
    document = _with(["source"], "kafka") | {"splits": {"clicks-0": [4711, read_max]}}
    offset = taking.from_json(document)
    assert offset is not None
    assert offset.source == f"kafka {read_max is not None}"
    with pytest.raises(ForeignCheckpointError):
        taking.from_json(document | {"source": "files"})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"logOffset": 0}, "the fields ['logOffset']"),
        ({"sourceVersion": 1, "index": 3}, "the fields ['sourceVersion', 'index']"),
        (7, "the number 7"),
    ],
)
def test_an_offset_of_another_format_of_spark_is_not_called_corrupt(document: Any, said: str) -> None:
    """An offset of another format of Spark is refused as foreign, and not as corrupt. The file source, the Delta
    source, and the formats rate and socket write such offsets.
    """
    with pytest.raises(ForeignCheckpointError, match="not written by a source of flip27-stream") as refused:
        OffsetCodec(FINGERPRINT, ShardSerializer(), NamesSerializer()).from_json(document)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        (["splits", "clicks-1", 3], [7, 3], ["begin", "clicks-1", "from format version 2"]),
        ([MARKER], True, ["flip27", "True"]),
        ([MARKER], 0, ["flip27", "0"]),
        (["batch"], True, ["batch", "True"]),
        (["batch"], -1, ["batch", "-1"]),
        (["batch"], "x" * 10_000, ["batch", "xxx..."]),
        (["lineage"], "", ["lineage"]),
        (["plausible_until"], 1.0, ["plausible_until", "1.0"]),
        (["plausible_until"], 2**63, ["plausible_until", "64-bit"]),
        (["source"], None, ["source", "None"]),
        (["enumerator"], [1], ["enumerator", "[1]"]),
        (["enumerator", 1], 5, ["enumerator", "what version 1 writes: not a list of names: 5. Restore"]),
        (["split_version"], False, ["split_version", "False"]),
        (["splits"], [], ["splits"]),
        (["splits", "clicks-0"], [], ["split 'clicks-0'", "1 to 5"]),
        (["splits", "clicks-0"], {"position": 1}, ["split 'clicks-0'"]),
        (["splits", "clicks-0", 0], -3, ["split 'clicks-0'", "position", "-3"]),
        (["splits", "clicks-0", 0], True, ["split 'clicks-0'", "position", "True"]),
        (["splits", "clicks-0", 1], "x", ["split 'clicks-0'", "read_max", "'x'"]),
        (["splits", "clicks-1", 2], False, ["split 'clicks-1'", "quiet_since", "False"]),
        (["splits", "clicks-1", 3], -1, ["split 'clicks-1'", "begin", "-1"]),
        (["splits", "views-0", 4], {"origin": "2021"}, ["split 'views-0'", "writes: KeyError: 'name'"]),
        (["splits", "views-0", 4], {"origin": "2021", "name": "views-9"}, ["split 'views-0'", "'views-9'"]),
        (["more"], 1, ["more", "unknown"]),
    ],
)
def test_a_corrupt_field_is_named_with_its_value(
    codec: ShardCodec, path: list[Any], value: Any, names: list[str]
) -> None:
    with pytest.raises(CorruptCheckpointError) as raised:
        codec.from_json(_with(path, value))
    assert all(name in str(raised.value) for name in names), str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("field", sorted(_document()))
def test_a_missing_field_is_named(codec: ShardCodec, field: str) -> None:
    document = _document()
    del document[field]
    with pytest.raises(CorruptCheckpointError, match=field):
        codec.from_json(document)


def test_values_that_cannot_be_read_back_are_not_written(codec: ShardCodec) -> None:
    with pytest.raises(ValueError, match="the position of split 'a'"):
        codec.to_json(_offset(splits={"a": SplitState(ShardSplit("a"), -1)}, begin={}))
    with pytest.raises(ValueError, match="begin names splits"):
        _offset(begin={"nowhere-0": 1})
    with pytest.raises(ValueError, match="stored with id 'b' has id 'a'"):
        codec.to_json(_offset(splits={"b": SplitState(ShardSplit("a"), 1)}, begin={}))


def test_a_float_in_a_state_is_not_written() -> None:
    class Floats(NamesSerializer):
        def serialize(self, value: frozenset[str]) -> JsonValue:
            return {"ratio": 0.5}  # type: ignore[dict-item]

    with pytest.raises(TypeError, match=r"without floats, not 0\.5"):
        OffsetCodec(FINGERPRINT, ShardSerializer(), Floats()).to_json(_offset())


def test_1000_partitions_of_a_long_topic_name_stay_below_120_kb(codec: ShardCodec) -> None:
    """The offset of 1000 partitions has less than 120 kB of text. The largest document is that of batch 0, where
    every split has a begin, if all splits were seen at their ends.
    """
    names = [f"prod.eu-west-1.payments.transaction-authorised.v2-{number}" for number in range(1000)]
    now = 1_760_000_000_000
    splits = {name: SplitState(ShardSplit(name), 1_234_567_890, now, now) for name in names}
    text = json.dumps(codec.to_json(_offset(splits=splits, begin=dict.fromkeys(names, 1_200_000_000))))
    assert len(text) < 120_000
