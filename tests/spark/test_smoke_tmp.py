import pytest, time
from tests.spark.kafka_queries import *
pytestmark = pytest.mark.jvm

def test_smoke(queries, topic):
    name = topic(3)
    queries.broker.write(name, [r for p in range(3) for r in records(p, [T0 + i * 100 + p * 60000 for i in range(500)])])
    for i, al in enumerate([{}, queries.aligned()]):
        t=time.time()
        out = queries.run(queries.stream(name, {**al, "maxOffsetsPerTrigger": "200"}), f"o{i}")
        print(time.time()-t, out.count(), len(out.offsets()))
        print(out.offset(3))
        t=time.time()
        out = queries.run_continuously(queries.stream(name, {**al, "maxOffsetsPerTrigger": "200"}),1500, f"c{i}")
        print(time.time()-t, out.count(), len(out.offsets()))
        assert len(out.positions()) == 1500
