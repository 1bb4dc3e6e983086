"""Fetches the Java libraries that tests, demo and benchmarks need, with the Ivy that Spark ships.

``python -m flip27_stream.testing`` fetches every set. They are stored in ``$FLIP27_JARS``, else in ``.jars`` of the
checkout, else in ``~/.cache/flip27-stream``. Each set has a directory, named by a hash of its contents. The
directory appears only when it is complete. So an existing set is complete, and new versions (also of Spark) are
fetched into a new directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.java import java

Progress = Callable[[str], None]

_CLASSIFIERS = "http://ant.apache.org/ivy/maven"
"""The namespace in which Ivy knows Maven's classifiers."""


@dataclass(frozen=True)
class JarSet:
    """Artifacts as ``organisation:module:revision``, which are resolved together.

    Attributes:
        name: The name of the set.
        artifacts: The artifacts.
        beside_spark: Whether to leave out modules that are among Spark's own jars, in whatever version.
        pinned: Artifacts that replace every other revision of the same module.
        transitive: Whether dependencies are resolved. Without them an artifact may have a classifier as fourth part.
    """

    name: str
    artifacts: tuple[str, ...]
    beside_spark: bool = False
    pinned: tuple[str, ...] = ()
    transitive: bool = True


KAFKA_BROKER = JarSet(
    "kafka-broker",
    ("org.apache.kafka:kafka_2.13:4.1.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
)
DELTA = JarSet("delta", ("io.delta:delta-spark_4.2_2.13:4.4.0",), beside_spark=True)
KAFKA_SOURCE = JarSet(
    "kafka-source",
    ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",),
    beside_spark=True,
    # Release 4.2.0 of this jar is not always available. 4.0.0 does the same for sources without delegation tokens.
    pinned=("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",),
)
# The 124 modules that a standalone server loads, of the 277 that pulsar-broker depends on. Some of these come as .nar
# if Ivy resolves them itself, and Java does not load such files.
PULSAR_SERVER = JarSet(
    "pulsar-server",
    tuple(Path(__file__).with_name("pulsar_modules.txt").read_text().split()),
    transitive=False,
)
ALL = (KAFKA_BROKER, DELTA, KAFKA_SOURCE)

_SPARK_OF_DELTA = "4.2"
"""The release of Spark that the jars of :data:`DELTA` are built for, in any patch version."""


def has_delta() -> bool:
    """Returns whether the release of Delta in :data:`DELTA` belongs to the installed Spark."""
    return _spark_version().startswith(f"{_SPARK_OF_DELTA}.")


def check_delta() -> None:
    """Checks that the release of Delta in :data:`DELTA` belongs to the installed Spark.

    Raises:
        ConnectorError: Delta belongs to another release of Spark.
    """
    if not has_delta():
        raise ConnectorError(
            f"{DELTA.artifacts[0]} belongs to Spark {_SPARK_OF_DELTA}, and this is Spark {_spark_version()}. "
            "Use local_session(delta=False)."
        )


def fetch(jar_set: JarSet, progress: Progress | None = None, directory: Path | None = None) -> list[Path]:
    """Returns the jars of a set. They are resolved and downloaded if they are missing.

    Args:
        jar_set: The set.
        progress: Called with a line for every module found and every jar downloaded.
        directory: Where to store sets; see :func:`default_directory`.

    Raises:
        ConnectorError: Java, Ivy or an artifact is not available. The message ends with Ivy's last lines.
    """
    root = directory or default_directory()
    spark_jars = _spark_jars()
    module = _ivy_module(jar_set, spark_jars)
    target = root / _folder(jar_set, module)
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / ".lock"):
            if not target.is_dir():
                _resolve(jar_set, module, spark_jars, target, progress or (lambda line: None))
    return sorted(target.glob("*.jar"))


def is_fetched(jar_set: JarSet, directory: Path) -> bool:
    """Returns whether a set is in ``directory``, so that :func:`fetch` downloads nothing."""
    return (directory / _folder(jar_set, _ivy_module(jar_set, _spark_jars()))).is_dir()


def _folder(jar_set: JarSet, module: str) -> str:
    return f"{jar_set.name}-{hashlib.sha256(module.encode()).hexdigest()[:12]}"


def default_directory() -> Path:
    """Returns the default directory for sets; see the module's docstring."""
    configured = os.environ.get("FLIP27_JARS")
    if configured:
        return Path(configured)
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "setup.cfg").is_file():
        return checkout / ".jars"
    return Path.home() / ".cache" / "flip27-stream"


def _spark_version() -> str:
    return importlib.metadata.version("pyspark")


def _spark_jars() -> Path:
    # PySpark is found without an import, because processes that start a broker do not need Spark.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConnectorError(
            "PySpark is not installed, and its Ivy fetches the jars. Install flip27-stream[spark]."
        )
    return Path(spec.origin).parent / "jars"


def _ivy_module(jar_set: JarSet, spark_jars: Path) -> str:
    wanted = [
        _element("dependency", artifact, module="name", conf="default")
        if jar_set.transitive
        else _single_jar(artifact)
        for artifact in (*jar_set.artifacts, *jar_set.pinned)
    ]
    shipped = _artifact_names(spark_jars) if jar_set.beside_spark else []
    excluded = [f"<exclude module={quoteattr(name)}/>" for name in shipped]
    overrides = [_element("override", artifact, module="module") for artifact in jar_set.pinned]
    lines = "\n".join((*wanted, *excluded, *overrides))
    classifiers = "" if jar_set.transitive else f" xmlns:m={quoteattr(_CLASSIFIERS)}"
    return f"""<ivy-module version="2.0"{classifiers}>
<info organisation="flip27" module={quoteattr(jar_set.name)}/>
<configurations><conf name="default"/></configurations>
<dependencies>
{lines}
</dependencies>
</ivy-module>
"""


def _element(tag: str, artifact: str, *, module: str, **more: str) -> str:
    organisation, name, revision = artifact.split(":")
    attributes = {"org": organisation, module: name, "rev": revision, **more}
    return f"<{tag} {' '.join(f'{key}={quoteattr(value)}' for key, value in attributes.items())}/>"


def _single_jar(artifact: str) -> str:
    organisation, name, revision, *classifier = artifact.split(":")
    attributes = {"name": name, "type": "jar", "ext": "jar"}
    if classifier:
        attributes["m:classifier"] = classifier[0]
    jar = " ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items())
    dependency = f"org={quoteattr(organisation)} name={quoteattr(name)} rev={quoteattr(revision)}"
    return f'<dependency {dependency} transitive="false" conf="default-&gt;master(*)"><artifact {jar}/></dependency>'


def _artifact_names(jars: Path) -> list[str]:
    return sorted({re.sub(r"-\d.*", "", jar.stem) for jar in jars.glob("*.jar")})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(jar_set: JarSet, module: str, spark_jars: Path, target: Path, progress: Progress) -> None:
    ivy = next(spark_jars.glob("ivy-*.jar"), None)
    if ivy is None:
        raise ConnectorError(f"No ivy-*.jar in {spark_jars}: is this a complete installation of PySpark?")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as scratch:
        ivy_file = Path(scratch, "ivy.xml")
        ivy_file.write_text(module)
        jars = Path(scratch, "jars")
        pattern = f"{jars}/[artifact]-[revision](-[classifier]).[ext]"
        _run_ivy(jar_set, [java(), "-jar", str(ivy), "-ivy", str(ivy_file), "-retrieve", pattern], progress)
        if not any(jars.glob("*.jar")):
            raise ConnectorError(f"Ivy found no jar for {', '.join(jar_set.artifacts)}.")
        shutil.move(jars, target)


def _run_ivy(jar_set: JarSet, command: list[str], progress: Progress) -> None:
    last: deque[str] = deque(maxlen=30)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last.append(line.rstrip())
            if done := re.match(r"\s*(?:\[SUCCESSFUL \]|found) ([^#]+)#([^;]+);([^! ]+)(.*\.jar)?", line):
                progress(f"  {'fetched' if done[4] else 'found'} {done[2]} {done[3]}")
    if ivy.returncode:
        wanted = ", ".join((*jar_set.artifacts, *jar_set.pinned))
        raise ConnectorError(
            f"The jars of {wanted} cannot be downloaded. Ivy's last lines:\n" + "\n".join(last)
        )
