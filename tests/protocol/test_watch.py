"""What the host reads of waits that gave up."""

import numpy as np

from pcietool.protocol.watch import MAX_RECORDS, RECORD, decode_records


def test_a_record_that_was_claimed_and_never_written_is_left_out() -> None:
    """Its thread died in between; those behind it are read."""
    records = np.zeros(MAX_RECORDS, RECORD)
    for number, reason in ((0, 1), (2, 2)):
        records[number] = (reason, 3, 1, number, 9, 8, 7, 6, 5, 0, 4)
    assert [(r.reason, r.col, r.since_entry_ns) for r in decode_records(records, 3)] == [
        ("deadline", 0, 4),
        ("abort", 2, 4),
    ]
    assert len(decode_records(records, 1)) == 1
    records["reason"] = 1
    assert len(decode_records(records, MAX_RECORDS + 1)) == MAX_RECORDS
