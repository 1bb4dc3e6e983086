"""The options of a format that a function declares. No JVM."""

from __future__ import annotations

import functools
import pickle
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

import flip27_stream
from examples.log_folder import LogFolder, log_folder
from flip27_stream.connectors.files import FileSourceFactory
from flip27_stream.connectors.kafka import KafkaSourceFactory
from flip27_stream.connectors.kinesis import KinesisSourceFactory
from flip27_stream.connectors.pulsar import PulsarSourceFactory
from flip27_stream.errors import ContractError, OptionError
from flip27_stream.spark.data_source import data_source
from flip27_stream.spark.format_names import BUILT_IN_FORMATS, SPARK_FORMATS
from flip27_stream.spark.function_source import FunctionSource
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader

REGISTER = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


def shop_logs(
    folder: str,
    region: Literal["eu", "us"] = "eu",
    shards: int = 1,
    strict: bool = False,
    rate: float | None = None,
) -> LogFolder:
    if shards < 1:
        raise ValueError("shards must be at least 1")
    return LogFolder(f"{folder}/{region}/{shards}/{strict}/{rate}")


def made(make: Any, **options: str) -> LogFolder:
    format_ = flip27_stream.data_source(make, name="shop_logs")(options)
    reader = format_.streamReader(cast(StructType, format_.schema()))
    assert isinstance(reader, Flip27StreamReader)
    source = reader._spec.source
    assert isinstance(source, LogFolder)
    return source


def test_parameters_are_options() -> None:
    assert made(shop_logs, folder="/logs").folder == "/logs/eu/1/False/None"
    given = {"Folder": "/logs", "region": "us", "SHARDS": "3", "strict": "True", "rate": "1.5"}
    assert made(shop_logs, **given).folder == "/logs/us/3/True/1.5"


class ShopLogs:
    """An object that can be called."""

    def __call__(self, folder: str, shards: int = 1) -> LogFolder:
        return LogFolder(f"{folder}/{shards}")


def test_a_factory_can_be_a_partial_function_or_an_object() -> None:
    """Arguments that ``functools.partial`` has fixed by name can be given too, as in Python."""
    assert made(functools.partial(shop_logs, region="us"), folder="/l").folder == "/l/us/1/False/None"
    assert made(functools.partial(shop_logs, "/l"), shards="2").folder == "/l/eu/2/False/None"
    assert made(functools.partial(ShopLogs(), shards=3), folder="/l").folder == "/l/3"
    assert made(ShopLogs(), folder="/l", shards="2").folder == "/l/2"


def test_texts_keep_their_blanks() -> None:
    """A text can be a tab, such as a separator; blanks around other values do not count."""
    assert made(shop_logs, folder="\t", shards=" 2 ", region=" us ").folder == "\t/us/2/False/None"


def test_the_example_declares_its_options() -> None:
    assert made(log_folder, folder="/logs", ROWS="5").read_limits.max_rows == 5
    assert made(log_folder, folder="/logs").read_limits.max_rows == 1000
    format_ = flip27_stream.data_source(log_folder, name="logs")
    for options, said in (
        ({}, "Option 'folder' must be set"),
        ({"folder": "/l", "row": "5"}, "Did you mean 'rows'"),
    ):
        with pytest.raises(OptionError, match=said):
            format_(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Option 'folder' must be set: format 'shop_logs' needs it."),
        ({"folder": "/l", "regions": "us"}, "Unknown option 'regions'. Did you mean 'region'?"),
        (
            {"path": "/l"},
            "Unknown option 'path'. Known: folder, region, shards, strict, rate; of all sources: scan.",
        ),
        ({"folder": "/l", "region": "asia"}, "'region': 'asia'. Allowed: eu, us."),
        ({"folder": "/l", "shards": "many"}, "'shards': 'many'. Allowed: a whole number."),
        ({"folder": "/l", "strict": "yes"}, "'strict': 'yes'. Allowed: true, false."),
        ({"folder": "/l", "rate": "fast"}, "'rate': 'fast'. Allowed: a number."),
    ],
)
def test_missing_unknown_and_wrong_options_fail_at_load(options: dict[str, str], said: str) -> None:
    format_ = flip27_stream.data_source(shop_logs, name="shop_logs")
    with pytest.raises(OptionError) as refused:
        format_(options)
    assert said in str(refused.value)


def test_an_error_of_the_function_names_the_format() -> None:
    with pytest.raises(
        OptionError,
        match=r"The function for format 'shop_logs' failed with options .*: ValueError: shards must be at least 1\. C",
    ):
        made(shop_logs, folder="/l", shards="0")


def without_a_return(folder: str) -> None:
    LogFolder(folder)


def test_a_function_that_returns_no_source_is_named() -> None:
    """The usual reason is a missing ``return``."""
    with pytest.raises(
        ContractError,
        match="The function for format 'shop_logs' returned None; it must return an object of Source",
    ):
        made(without_a_return, folder="/l")


def with_a_list(folders: list[str]) -> LogFolder:
    return LogFolder(folders[0])


def without_a_type(folder) -> LogFolder:  # type: ignore[no-untyped-def]
    return LogFolder(folder)


def with_names_in_two_cases(folder: str, Folder: str = "") -> LogFolder:
    return LogFolder(folder)


def with_an_unknown_type(folder: Undefined) -> LogFolder:  # type: ignore[name-defined]  # noqa: F821
    return LogFolder(folder)


def with_anything(**options: str) -> LogFolder:
    return LogFolder(options["folder"])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (with_a_list, "Parameter 'folders' .* Annotate it with str"),
        (without_a_type, "Parameter 'folder' .* has no type annotation. Annotate it with str"),
        (with_names_in_two_cases, "Parameters 'folder' and 'Folder' .* differ in case only"),
        (with_an_unknown_type, "'Undefined' is not defined. Import what they name at run time"),
        (with_anything, "Parameter 'options' .* cannot be given by name"),
        (LogFolder, "In place of a class give an object of it"),
        ("logs", "a function that makes a source, not 'logs'"),
    ],
)
def test_an_object_that_is_no_format_is_refused_at_registration(source: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        flip27_stream.data_source(source, name="logs")


@pytest.mark.parametrize("name", ["", None])
def test_a_format_has_a_name(name: Any) -> None:
    with pytest.raises(ValueError, match="a name as well"):
        flip27_stream.data_source(log_folder, name=name)


@pytest.mark.parametrize("name", ["my format!", "a b", "a/b", "lögs", "`logs`", " logs"])
def test_a_name_of_other_characters_is_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"the name '.*'\. Give a name of letters, digits, '_', '-' and '\.' only"
    ):
        flip27_stream.data_source(log_folder, name=name)


@pytest.mark.parametrize("name", [3, b"logs", ("logs",)])
def test_a_name_of_another_type_is_refused(name: Any) -> None:
    for source in (log_folder, LogFolder("/logs")):
        with pytest.raises(ValueError, match=r"the name .*, which is of type \w+\. Give a text of letters"):
            flip27_stream.data_source(source, name=name)


@pytest.mark.parametrize("name", [*SPARK_FORMATS, "Kafka", "PARQUET", "binaryfile"])
def test_the_names_of_formats_of_spark_are_taken(name: str) -> None:
    """Spark would read its own format of that name, and not the source."""
    said = f"'{name}', which is a format of Spark, .* Give another name, such as 'my_{name.lower()}'"
    for source in (log_folder, LogFolder("/logs")):
        with pytest.raises(ValueError, match=said):
            flip27_stream.data_source(source, name=name)
    assert flip27_stream.data_source(log_folder, name=f"my_{name.lower()}").name() == f"my_{name.lower()}"


def test_the_name_of_a_factory_is_checked() -> None:
    for name, said in (("kafka", "a format of Spark"), ("a b", "Give a name of letters"), (3, "of type int")):
        factory = FunctionSource(log_folder, cast(str, name), lambda *_: None)
        with pytest.raises(ValueError, match=said):
            data_source(factory)


def test_no_format_of_spark_is_missing_in_the_list() -> None:
    """The list has a name from each class that Spark's own jars register as a format."""
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"))
    classes: dict[str, bytes] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            if REGISTER in archive.namelist():
                lines = archive.read(REGISTER).decode().splitlines()
                names = [line for line in lines if line and not line.startswith("#")]
                held = set(archive.namelist())
                for name in names:  # A name can be in the companion object of a class, too.
                    files = [f"{name.replace('.', '/')}{end}.class" for end in ("", "$")]
                    classes[name] = b"".join(archive.read(file) for file in files if file in held)
    assert len(classes) > 15
    wanted = [b"\x01" + len(name).to_bytes(2, "big") + name.encode() for name in SPARK_FORMATS]
    assert [name for name, code in classes.items() if not any(text in code for text in wanted)] == []


def with_a_lock() -> Callable[[str], LogFolder]:
    lock = threading.Lock()

    def make(folder: str) -> LogFolder:
        with lock:
            return LogFolder(folder)

    return make


def test_a_function_that_cannot_be_pickled_is_refused_at_registration() -> None:
    with pytest.raises(
        ValueError,
        match=r"The function for format 'logs' cannot be sent to other processes: .*lock.* inside the function",
    ):
        flip27_stream.data_source(with_a_lock(), name="logs")


class Careless(FunctionSource):
    """A factory of one's own that holds a lock."""

    def __init__(self) -> None:
        super().__init__(log_folder, "logs", lambda *_: None)
        self.lock = threading.Lock()


def test_a_factory_that_cannot_be_pickled_is_refused_at_registration() -> None:
    with pytest.raises(ValueError, match=r"The factory Careless of format 'logs' cannot be sent.*lock"):
        data_source(Careless())


@pytest.mark.parametrize("kind", ["function", "closure"])
def test_a_function_with_what_it_takes_from_around_it_can_be_sent(kind: str) -> None:
    """The class of the format is what Spark pickles."""
    shards = 3

    def closure(folder: str) -> LogFolder:
        return LogFolder(f"{folder}/{shards}")

    format_ = flip27_stream.data_source(closure if kind == "closure" else log_folder, name="logs")
    sent = pickle.loads(cloudpickle.dumps(format_))({"folder": "/l"})  # type: ignore[no-untyped-call]
    spec = cast(Flip27StreamReader, sent.streamReader(sent.schema()))._spec
    assert cast(LogFolder, spec.source).folder == ("/l/3" if kind == "closure" else "/l")


@pytest.mark.parametrize("name", [*BUILT_IN_FORMATS, "Flip27_Kafka"])
def test_the_names_of_built_in_formats_are_taken(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}', which is a format of flip27_stream. Give another name"):
        flip27_stream.data_source(log_folder, name=name)


def test_the_built_in_formats_are_those_that_are_registered() -> None:
    factories = (KafkaSourceFactory, FileSourceFactory, KinesisSourceFactory, PulsarSourceFactory)
    assert tuple(factory.name for factory in factories) == BUILT_IN_FORMATS
