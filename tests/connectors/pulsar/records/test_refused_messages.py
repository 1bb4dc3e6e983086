"""Messages that are refused by name. They are stand-ins, for a standalone server hardly makes real ones."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.pulsar.client.refused_messages import check_readable
from flip27_stream.errors import RecordFormatError

pulsar = pytest.importorskip("pulsar")


class _Id:
    """A message id whose serialized form may have the field of a chunked message."""

    def __init__(self, index: int, more: bytes) -> None:
        self._id, self._more = pulsar.MessageId(-1, 300, 70_000, index), more

    def ledger_id(self) -> int:
        return int(self._id.ledger_id())

    def entry_id(self) -> int:
        return int(self._id.entry_id())

    def batch_index(self) -> int:
        return int(self._id.batch_index())

    def serialize(self) -> bytes:
        return bytes(self._id.serialize()) + self._more


class _Message:
    def __init__(self, index: int = -1, more: bytes = b"", encryption: object = None) -> None:
        self._id, self._encryption = _Id(index, more), encryption

    def message_id(self) -> _Id:
        return self._id

    def topic_name(self) -> str:
        return "persistent://public/default/clicks"

    def encryption_context(self) -> object:
        return self._encryption


FIRST_CHUNK = b"\x3a\x04\x08\x01\x10\x02"
"""Field 7 of MessageIdData of PulsarApi.proto."""


def test_usual_messages_are_read() -> None:
    for index in (-1, 0, 58):
        message = _Message(index)
        expected = bytes(pulsar.MessageId(-1, 300, 70_000, index).serialize())
        assert check_readable([message], [message.message_id()]) == [expected]


@pytest.mark.parametrize(
    ("message", "what"),
    [(_Message(more=FIRST_CHUNK), "chunked"), (_Message(encryption=object()), "encrypted")],
)
def test_unusual_messages_are_refused_by_name(message: _Message, what: str) -> None:
    with pytest.raises(
        RecordFormatError, match=f"300:70000:0 of persistent://public/default/clicks is {what}"
    ):
        check_readable([_Message(), message], [_Message().message_id(), message.message_id()])
