# Databricks notebook source
# MAGIC %md
# MAGIC # Writing your own source
# MAGIC
# MAGIC You write three small classes. An *enumerator* finds splits and returns how far each can be read. A *reader*
# MAGIC reads a split from one position to another. A *source* creates both, and has the schema of the rows. Restarts,
# MAGIC alignment and the split-watermark table need no code of yours.
# MAGIC
# MAGIC Fill in the widget: a folder that Spark and the driver's Python both reach, such as a volume. No broker is
# MAGIC needed.

# COMMAND ----------

from datetime import datetime


def parameter(name: str, default: str) -> str:
    """A widget on Databricks; elsewhere what was set before, or the default."""
    if "dbutils" not in globals():
        return str(globals().get(name, default))
    dbutils.widgets.text(name, default)
    return str(dbutils.widgets.get(name))


run = f"own_source_{datetime.now():%Y%m%d_%H%M%S_%f}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Splits: sensors
# MAGIC
# MAGIC A sensor takes a reading at a fixed interval (in seconds), so the time of reading `n` can be calculated, and
# MAGIC no server is needed. A position is the number of a reading. The reader is a generator of rows.

# COMMAND ----------

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from flip27_stream.api import Boundedness, ReadLimits, Source, SplitEnumerator, SplitRange
from flip27_stream.reader import DataclassSerializer, IteratorSourceReader, RangeSplit

HOUR = 3_600_000
BEGIN = int(datetime.now().timestamp() * 1000) // HOUR * HOUR - HOUR
SCHEMA = pa.schema({"sensor": "string", "timestamp": pa.timestamp("us", "UTC"), "degrees": "float64"})


@dataclass(frozen=True)
class Sensor(RangeSplit):
    name: str
    seconds: int

    @property
    def split_id(self) -> str:
        return self.name


def readings(sensor: Sensor) -> Iterator[dict[str, object]]:
    """The readings from number ``sensor.start`` up to ``sensor.end``."""
    for number in range(sensor.start, sensor.end):
        time = BEGIN + number * sensor.seconds * 1000
        yield {"sensor": sensor.name, "timestamp": time * 1000, "degrees": 20 + 5 * math.sin(number / 60)}


# COMMAND ----------

# MAGIC %md
# MAGIC ## The enumerator and the source
# MAGIC
# MAGIC The enumerator assigns all sensors at once, and has an hour of readings of each. Its state in the checkpoint
# MAGIC is whether it has assigned them.

# COMMAND ----------

SENSORS = (Sensor("boiler", seconds=1), Sensor("hall", seconds=5), Sensor("roof", seconds=10))


@dataclass(frozen=True)
class AssignedSensors:
    sensors: int = 0


class SensorEnumerator(SplitEnumerator[Sensor, AssignedSensors]):
    def __init__(self, context, state: AssignedSensors) -> None:
        self._context, self._state = context, state

    def start(self) -> None:
        for number, sensor in enumerate(SENSORS[self._state.sensors :]):
            self._context.assign_split(sensor, number % self._context.current_parallelism())
        self._state = AssignedSensors(len(SENSORS))

    def split_ranges(self, positions: Mapping[Sensor, int | None]) -> Mapping[str, SplitRange]:
        return {
            sensor.split_id: SplitRange(position or 0, 3600 // sensor.seconds)
            for sensor, position in positions.items()
        }

    def snapshot_state(self) -> AssignedSensors:
        return self._state


@dataclass(frozen=True)
class Sensors(Source[Sensor, AssignedSensors]):
    rows_per_batch: int
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    schema = SCHEMA
    fingerprint = "sensors"
    split_serializer = DataclassSerializer(Sensor)
    enumerator_checkpoint_serializer = DataclassSerializer(AssignedSensors)

    @property
    def read_limits(self):
        return ReadLimits(max_rows=self.rows_per_batch)

    def create_reader(self, context):
        return IteratorSourceReader(context, self.schema, readings)

    def create_enumerator(self, context):
        return SensorEnumerator(context, AssignedSensors())

    def restore_enumerator(self, context, checkpoint):
        return SensorEnumerator(context, checkpoint)


# COMMAND ----------

# MAGIC %md
# MAGIC ## Read it
# MAGIC
# MAGIC The rows of a batch are divided among the sensors. A sensor with few readings would soon be an hour ahead.
# MAGIC With alignment each sensor waits for the boiler, which has the most readings.

# COMMAND ----------

import flip27_stream


def sensors(rows_per_batch: int = 900) -> Sensors:
    """A parameter is an option of the format: checked, and required if it has no default."""
    return Sensors(rows_per_batch)


spark.dataSource.register(flip27_stream.data_source(sensors, name="sensors"))
spark.read.format("sensors").load().groupBy("sensor").count().show()  # a batch query works, too

table = f"{folder}/split_watermarks"
stream = (
    spark.readStream.format("sensors")
    .option("rows_per_batch", 600)
    .option("scan.watermark.alignment.group", "house")
    .option("scan.watermark.alignment.max-drift", "10 minutes")
    .option("scan.watermark.alignment.table", table)
    .load()
)
query = (
    stream.writeStream.format("delta")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/readings")
)
query.awaitTermination()
read = spark.read.format("delta").load(f"{folder}/readings").groupBy("sensor").count()
read.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## What each batch read
# MAGIC
# MAGIC If an enumerator can find the position of an event time (`SupportsEventTimePositions`), a batch ends exactly
# MAGIC at that position. This one cannot. Its sensors are paused after tasks have reported that they are ahead.

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table, over="batch")
picture
