"""Promises of stores about runs: their logs, their inboxes, and conversations with both."""

from __future__ import annotations

from pathlib import Path

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import read_events
from vibe_llms.conversations.run_logs.log_lines import write_line
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.events.runs import StopRequestedEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.messages.identities import access_now
from vibe_llms.testing.contracts.histories import create_with_texts, make_messages, read_texts
from vibe_llms.testing.contracts.promises import expect, require


class RunPromises:
    """Promises about runs; all but the first are for a store that keeps logs."""

    def produce_store(self, directory: Path) -> ConversationStore:
        """Make a store in an empty directory."""
        raise NotImplementedError

    def test_a_store_that_keeps_logs_says_so(self, tmp_path: Path) -> None:
        """Others can read a run's log only if ``keeps_logs`` is true."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        log = store.open_log("a")
        log.claim()
        log.append("run", RunEndedEvent(run_id="run", reason="answered"))
        log.synchronize()
        log.close()

        events = read_events(store.open_log("a"))
        is_kept = bool(events)
        problem = f"keeps_logs is {store.keeps_logs}, and a closed log contains {events}."
        remedy = "Set keeps_logs = True if the store keeps logs, else False."
        require(store.keeps_logs == is_kept, problem, remedy)

    def test_logs_of_runs_live_and_end_with_their_conversation(self, tmp_path: Path) -> None:
        """For a store that keeps logs: one run writes, all can read, a deletion removes them."""
        store = self.produce_store(tmp_path)
        if not store.keeps_logs:  # then a call without a result counts as started
            return
        remedy = "See RunLog; or inherit open_log from StoreDefaults and keep no logs."
        with expect(UnknownConversationError, "An unknown conversation has a log.", remedy):
            store.open_log("a").claim()
        create_with_texts(store, "a", "one")
        log = store.open_log("a")
        require(log.measure() is None, "An empty log has a measure.", remedy)
        log.claim()

        log.append("run", RunEndedEvent(run_id="run", reason="answered"))
        log.synchronize()

        with expect(StoreError, "Two runs hold the claim.", remedy):
            store.open_log("a").claim()
        require(store.open_log("a").is_claimed, "A claimed log does not make_messages so.", remedy)
        log.close()
        require(not store.open_log("a").is_claimed, "is_claimed of a closed log is true.", remedy)
        read = read_events(store.open_log("a"))
        require(len(read) == 1, f"It reads {read}.", remedy)
        create_with_texts(store, "b", "without a run")
        measured = {name: measure for name, measure in store.measure_logs().items() if measure}
        single = {"a": store.open_log("a").measure()}
        problem = f"measure_logs returns {measured}, and RunLog.measure {single}."
        require(measured == single, problem, "Return what RunLog.measure returns, for all logs.")
        store.delete("a")
        create_with_texts(store, "a", "two")
        read = read_events(store.open_log("a"))
        require(read == [], f"It reads {read} of a deleted conversation.", remedy)

    def test_a_released_claim_cannot_write_and_releases_no_other(self, tmp_path: Path) -> None:
        """For a store that keeps logs: only the last claim counts, however often one is closed."""
        store = self.produce_store(tmp_path)
        if not store.keeps_logs:
            return
        remedy = "Let each log that open_log returns have a claim of its own; see RunLog."
        create_with_texts(store, "a", "one")
        stale, holder = store.open_log("a"), store.open_log("a")
        stale.claim()
        stale.close()
        holder.claim()
        stale.close()

        with expect(StoreError, "A second close released the claim of another.", remedy):
            store.open_log("a").claim()
        end = RunEndedEvent(run_id="run", reason="answered")
        with expect(StoreError, "A released claim has written.", remedy):
            stale.append("run", end)
        require(holder.append("run", end) == 1, "The holder cannot write.", remedy)
        holder.close()

    def test_events_are_numbered_over_all_runs(self, tmp_path: Path) -> None:
        """A log can be read from any number on, completely or line by line, while it grows."""
        store = self.produce_store(tmp_path)
        if not store.keeps_logs:
            return
        remedy = "Number the events of a log from 1, over all its runs; see RunLog."
        create_with_texts(store, "a", "one")
        measures, tail = [], store.open_log("a").tail()
        for number in (1, 3):
            log = store.open_log("a")
            log.claim()
            end = RunEndedEvent(run_id="run", reason="answered")
            last = log.append("run", end, end)
            require(last == number + 1, f"The last of two is number {last}.", remedy)
            log.synchronize()
            log.close()
            measures.append(store.open_log("a").measure())
            lines = [line.sequence for line in tail.read()]
            require(lines == [number, number + 1], f"The tail reads {lines}.", remedy)

        log = store.open_log("a")
        read = [each.sequence for each in log.read(after=1)]
        require(read == [2, 3, 4], f"It reads {read} after 1.", remedy)
        newest = log.read_last()
        require(newest is not None and newest.sequence == 4, f"It ends with {newest}.", remedy)
        again = store.open_log("a").measure()
        problem = f"The measures are {[*measures, again]}."
        require(measures[0] != measures[1] == again, problem, "See RunLog.measure.")
        data, last = log.tail(after=3).read_raw()
        is_one_line = data.count(b"\n") == 1 and data.endswith(b"\n")
        require(is_one_line and last == 4, f"It reads {data!r} up to {last}.", remedy)

    def test_letters_wait_in_the_inbox_until_a_run_takes_them(self, tmp_path: Path) -> None:
        """For a store that keeps logs: a run receives each message to its inbox once."""
        store = self.produce_store(tmp_path)
        if not store.keeps_logs:
            return
        remedy = "See RunInbox: the messages live and end with the conversation."
        messages = [StopRequestedEvent(message_id=f"letter-{number}") for number in range(2)]
        with expect(UnknownConversationError, "An unknown conversation has an inbox.", remedy):
            store.open_inbox("a").put(messages[0])
        create_with_texts(store, "a", "one")
        require(store.open_inbox("a").is_empty, "A new inbox is not empty.", remedy)
        for message in messages:
            store.open_inbox("a").put(message)

        inbox = store.open_inbox("a")
        read = list(inbox.read())
        require(read == messages, f"It reads {read}.", remedy)
        with expect(RuntimeError, "The error of a failed run is lost.", remedy):
            inbox.empty(_refuse)
        remaining = list(store.open_inbox("a").read())
        require(remaining == messages, f"It has {remaining} after a run that failed.", remedy)
        received: list[object] = []
        inbox.empty(received.extend)
        require(received == messages, f"A run receives {received}.", remedy)
        require(store.open_inbox("a").is_empty, "Received messages are still there.", remedy)
        store.open_inbox("a").put(messages[0])
        store.delete("a")
        create_with_texts(store, "a", "two")
        require(
            store.open_inbox("a").is_empty, "It has messages of a deleted conversation.", remedy
        )

    def test_a_conversation_is_planted_with_all_that_belongs_to_it(self, tmp_path: Path) -> None:
        """Canisters, log and inbox exist; a second conversation with this id is refused."""
        store = self.produce_store(tmp_path)
        if not store.keeps_logs:
            return
        remedy = "Inherit plant from StoreDefaults, and let your logs have `adopt`."
        end = RunEndedEvent(run_id="run", reason="answered")
        line, message = write_line(1, access_now(), "run", end), StopRequestedEvent(message_id="l")
        metadata = ConversationMetadata(name="planted")

        position = store.plant(
            "a", metadata, make_messages("one"), events=[line], messages=[message]
        )

        require(position == store.read("a").position, f"It ends at {position}.", remedy)
        require(store.read_metadata("a").name == "planted", "The name is lost.", remedy)
        texts, read = read_texts(store, "a"), read_events(store.open_log("a"))
        require(texts == ["one"] and read == [end], f"It reads {texts} and {read}.", remedy)
        found = list(store.open_inbox("a").read())
        require(found == [message], f"Its inbox has {found}.", remedy)
        with expect(StoreError, "A second one is accepted.", remedy):
            store.plant("a", metadata, make_messages("two"))
        store.create("b", ConversationMetadata())  # the store still works


def _refuse(_: object) -> None:
    raise RuntimeError
