"""Mutants of what is safe, and of what a publisher is told of it."""

from vinecast.lab.mutants.mutant import Mutant

REPAIR, INTAKE = "protocols/streams/machine.py", "protocols/streams/intake.py"
HOLDERS, PUBLISHER = "protocols/streams/holders.py", "peer/publisher.py"

RECEIPTS: tuple[Mutant, ...] = (
    Mutant(
        "ack-before-sync",
        "D1",
        "a holder acknowledges an event when it is kept, before it is synced",
        REPAIR,
        "                self.seeking.kept(signed.cid)\n",
        "                self.seeking.kept(signed.cid)\n"
        "            effects = [*effects, *self.intake.safe(tuple(signed.cid for signed in events))]\n",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_an_event_is_kept_then_handed_on_and_acknowledged_when_it_is_safe",
        ),
        seed=2,
    ),
    Mutant(
        "ack-again-before-sync",
        "D1",
        "an event that comes again is acknowledged though it is not synced yet",
        INTAKE,
        "        if cid not in self._unsafe:\n            return [Send",
        "        if cid:\n            return [Send",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_an_event_is_kept_then_handed_on_and_acknowledged_when_it_is_safe",
        ),
        seed=5,
    ),
    Mutant(
        "receipt-before-own-sync",
        "D1",
        "a receipt does not wait until the event is safe on its publisher",
        PUBLISHER,
        "if awaited.safe and (enough",
        "if (enough",
        seed=11,
    ),
    Mutant(
        "count-who-was-sent",
        "D1",
        "whoever was sent an event counts as a holder once somebody acknowledges it",
        HOLDERS,
        "told.append(Acknowledged(cid, sum(own.sent.values())))",
        "told.append(Acknowledged(cid, len(own.sent)))",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_replicas_are_sent_again_what_they_do_not_acknowledge",
        ),
        seed=1,
    ),
    Mutant(
        "count-a-holder-twice",
        "D1",
        "a holder that acknowledges an event again counts twice",
        HOLDERS,
        """            if own is None or own.sent.get(peer) is not False:
                continue
            own.sent[peer] = True
""",
        """            if own is None or peer not in own.sent:
                continue
            if own.sent[peer]:
                own.sent[-2 - len(own.sent)] = True
            own.sent[peer] = True
""",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_only_those_count_who_were_sent_it_and_once",
        ),
    ),
    Mutant(
        "count-who-was-not-sent",
        "D1",
        "a peer that was never sent an event can acknowledge it",
        HOLDERS,
        "if own is None or own.sent.get(peer) is not False:",
        "if own is None or own.sent.get(peer) is True:",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_only_those_count_who_were_sent_it_and_once",
        ),
    ),
    Mutant(
        "unsafe-event-gets-a-receipt",
        "D1",
        "an event that could not be written down in time gets a receipt",
        PUBLISHER,
        "                self._look(cid, awaited, enough=True)\n",
        "                awaited.safe = True\n                self._look(cid, awaited, enough=True)\n",
        seed=28,
    ),
    Mutant(
        "holders-are-not-waited-for",
        "D2",
        "a receipt does not wait for holders",
        PUBLISHER,
        "awaited.holders >= min(wanted, self._host.expected_others())",
        "awaited.holders >= min(0, wanted)",
        tests=("tests/peer/test_peer_publisher.py::test_so_it_is_with_events_of_streams",),
        seed=2,
    ),
    Mutant(
        "replicas-are-not-pushed",
        "D2",
        "a publisher does not send its events to the replicas that it finds",
        HOLDERS,
        "        if own.pushes:\n            self._unpushed[cid] = None\n",
        "        if own.pushes:\n            pass\n",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_replicas_get_a_publishers_events_in_batches_and_acknowledge_them",
        ),
        seed=2,
    ),
    Mutant(
        "replicas-are-pushed-once",
        "D2",
        "what a replica does not acknowledge is not sent again",
        HOLDERS,
        "PUSHES = 5\n",
        "PUSHES = 1\n",
        tests=(
            "tests/protocols/streams/test_streams_machine.py::test_replicas_are_sent_again_what_they_do_not_acknowledge",
        ),
    ),
    Mutant(
        "failed-commit-counts",
        "D1",
        "a commit that failed counts as one that did not",
        "node/storage/streams_writer.py",
        "        if error is not None:\n            self._failed(error)\n            return\n",
        "",
        tests=("tests/node/storage/test_stream_retention.py::test_retention_goes_on_after_a_full_disk",),
    ),
    Mutant(
        "full-disk-keeps-nothing",
        "D1",
        "a batch that could not be committed is not tried again",
        "node/storage/streams_writer.py",
        "        if self.flying is None:\n            self.flying, self.noted = self.noted, WriteBatch()",
        "        if True:\n            self.flying, self.noted = self.noted, WriteBatch()",
        tests=("tests/node/storage/test_stream_retention.py::test_retention_goes_on_after_a_full_disk",),
    ),
    Mutant(
        "file-is-not-synced",
        "D1",
        "the file of streams is not synced with every commit",
        "node/storage/streams_file.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        tests=("tests/node/storage/test_stream_store.py::test_a_commit_waits_for_the_disk",),
    ),
    Mutant(
        "retention-takes-too-much",
        "D1",
        "events that are within the limits of retention go, too",
        "core/log/retention.py",
        "            break\n        going += 1",
        "            continue\n        going += 1",
        tests=("tests/core/log/test_stream_memory.py::test_a_young_event_holds_back_those_after_it",),
    ),
    Mutant(
        "one-commit-is-all",
        "D1",
        "all that is kept counts as safe with the next commit, whatever that covers",
        INTAKE,
        "        for cid in cids:\n            if cid not in self._unsafe:",
        "        for cid in (*self._unsafe,):\n            if cid not in self._unsafe:",
        seed=1,
    ),
)
