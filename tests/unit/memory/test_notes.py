"""Notes as Markdown files with front matter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs

from vibe_llms.memory.notes import ORIGINS, Note, NoteOrigin, read_note, write_note

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
ORIGIN = NoteOrigin(conversation="c1", turn=3, time=NOW)


def test_a_note_is_written_and_read_back() -> None:
    note = Note(path="tea.md", text="# Tea\n\nGreen.\n", others={"tags": ["drinks"]})
    changed = note.change("Black.\n", NOW, ORIGIN)

    assert read_note("tea.md", write_note(changed)) == changed
    assert write_note(changed) == (
        "---\ncreated: 2026-11-29T12:00:00Z\nupdated: 2026-11-29T12:00:00Z\nremembered:\n"
        "- conversation: c1\n  turn: 3\n  time: 2026-11-29T12:00:00Z\n"
        "tags:\n- drinks\n---\nBlack.\n"
    )


def test_a_note_keeps_its_first_moment_and_its_latest_origins() -> None:
    note = Note(path="tea.md", text="")
    for number in range(ORIGINS + 5):
        origin = attrs.evolve(ORIGIN, turn=number)
        note = note.change(f"{number}", NOW + timedelta(days=number), origin)
    by_hand = note.change("mine", NOW + timedelta(days=99), None)

    assert (note.created, note.updated) == (NOW, NOW + timedelta(days=ORIGINS + 4))
    assert [each.turn for each in note.origins] == [*range(5, ORIGINS + 5)]
    assert by_hand.origins == note.origins


def test_files_of_people_are_notes_too() -> None:
    plain = read_note("a.md", "Just text.\n")
    foreign = read_note("b.md", "---\ntitle: X\nupdated: soon\nremembered: yes\n---\nText")
    broken = read_note("c.md", "---\ntitle: [\n---\nText")

    assert plain == Note(path="a.md", text="Just text.\n")
    others = {"title": "X", "updated": "soon", "remembered": "yes"}
    assert foreign == Note(path="b.md", text="Text", others=others)
    assert broken.text == "---\ntitle: [\n---\nText"


def test_incomplete_origins_are_left_out() -> None:
    text = (
        "---\nremembered:\n- conversation: a\n- time: 2026-11-29T12:00:00Z\n- x\n"
        "- conversation: b\n  turn: many\n  time: 2026-11-29 13:00+01:00\n---\n"
    )

    assert read_note("a.md", text).origins == (NoteOrigin(conversation="b", time=NOW),)


def test_fields_of_people_outlive_a_change() -> None:
    begin = "created: in May\nupdated: soon\nremembered:\n- from Anna\n"
    end = "draft:\naliases: []\n"
    note = read_note("a.md", f"---\n{begin}{end}---\nText\n")

    by_hand = note.change("By hand\n", NOW, None)
    assert write_note(by_hand) == f"---\n{begin}{end}---\nBy hand\n"
    by_model = write_note(by_hand.change("By a model\n", NOW, ORIGIN))
    origin = "- conversation: c1\n  turn: 3\n  time: 2026-11-29T12:00:00Z\n"
    assert by_model == f"---\n{begin}{origin}{end}---\nBy a model\n"
    again = read_note("a.md", by_model)
    assert again.origins == (ORIGIN,)
    assert write_note(again) == by_model


def test_an_empty_moment_is_filled_in() -> None:
    note = read_note("a.md", "---\ncreated:\nupdated:\nremembered: []\n---\n")

    assert write_note(note.change("Text\n", NOW, None)) == (
        "---\ncreated: 2026-11-29T12:00:00Z\nupdated: 2026-11-29T12:00:00Z\n---\nText\n"
    )
