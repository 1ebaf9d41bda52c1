"""Documents that share a budget: order, cuts, and the two forms."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.answers.documents import Document, hand_out
from orchestr8_sqlite.text.tokens import estimate_tokens


def sections(name: str, count: int, words: int = 40) -> Document:
    """Return a document with that many sections of about that many words."""
    parts = [f"## Part {n} of {name}\n\n" + f"Plain words of {name}. " * (words // 4) for n in range(count)]
    return Document(f"orchestr8://guides/{name}", "\n\n".join(parts))


def forms(documents: list[Document], max_tokens: int | None) -> tuple[str, dict[str, Any]]:
    """Return what is handed out, as text and as JSON."""
    handout = hand_out(documents, max_tokens)
    return handout.text, handout.content


def as_json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


SMALL, LARGE, OTHER = sections("small", 1), sections("large", 12), sections("other", 8)


def test_one_document_is_its_text_alone() -> None:
    text, content = forms([SMALL], None)
    assert text == SMALL.body
    assert content == {"documents": [{"uri": SMALL.uri, "text": SMALL.body}]}


def test_several_stand_under_their_uris_in_the_order_given() -> None:
    text, content = forms([OTHER, SMALL], None)
    assert text == f"## {OTHER.uri}\n~~~~\n{OTHER.body}\n~~~~\n\n## {SMALL.uri}\n~~~~\n{SMALL.body}\n~~~~"
    assert [document["uri"] for document in content["documents"]] == [OTHER.uri, SMALL.uri]


def test_budget_that_holds_all_cuts_nothing() -> None:
    documents = [LARGE, SMALL, OTHER]
    whole, _ = forms(documents, None)
    assert forms(documents, 3 * estimate_tokens(whole)) == forms(documents, None)


def test_small_ones_stay_whole_and_large_ones_are_cut_at_sections() -> None:
    text, content = forms([LARGE, SMALL, OTHER], 700)
    large, small, other = content["documents"]
    assert small == {"uri": SMALL.uri, "text": SMALL.body}
    for cut, document in ((large, LARGE), (other, OTHER)):
        note = cut["note"]
        assert f"## {document.uri}\n~~~~\n{cut['text']}\n~~~~\n{note}" in text
        assert f"whole text: load {document.uri}]" in note
        parts = [part.rstrip() for part in document.body.split("\n\n## ")]
        left = sum(part.removeprefix("## ") not in cut["text"] for part in parts)
        assert note.startswith(f"[cut: {left} sections, ~")
        assert 0 < left < len(parts)


@settings(max_examples=60)
@given(
    documents=st.lists(st.sampled_from([SMALL, LARGE, OTHER]), min_size=1, max_size=3, unique=True),
    budget=st.integers(4, 30) | st.integers(30, 3000),
)
def test_both_forms_keep_the_budget(documents: list[Document], budget: int) -> None:
    text, content = forms(documents, budget)
    assert estimate_tokens(text) <= budget
    assert estimate_tokens(as_json(content)) <= budget


def test_neighbours_are_the_last_line() -> None:
    followed = SMALL.followed_by(["orchestr8://skills/a", "orchestr8://skills/b"])
    assert followed.text == f"~~~~\n{SMALL.body}\n~~~~\nRelated: orchestr8://skills/a orchestr8://skills/b"
    assert SMALL.followed_by([]) == SMALL


@pytest.mark.parametrize("budget", [120, 300])
def test_neighbours_outlast_a_cut(budget: int) -> None:
    line = "Related: orchestr8://skills/a orchestr8://skills/b"
    text, content = forms([LARGE.followed_by(["orchestr8://skills/a", "orchestr8://skills/b"])], budget)
    assert text.endswith(f"load {LARGE.uri}]\n\n{line}")
    document = content["documents"][0]
    assert text == f"~~~~\n{document['text']}\n~~~~\n{document['note']}"
    assert estimate_tokens(as_json(content)) <= budget


def test_one_section_left_out_is_one() -> None:
    whole = Document("orchestr8://guides/one", "# Title\n\nShort.\n\n## Long\n\n" + "Plain words. " * 200)
    text, _ = forms([whole], 100)
    assert "[cut: 1 section, ~" in text


@pytest.mark.parametrize("name", ["x\n## forged", "y" * 400])
def test_name_above_a_text_is_one_short_line(name: str) -> None:
    head = Document(name, "text").head
    assert head.startswith("## ")
    assert head.endswith("\n")
    assert head.count("\n") == 1
    assert len(head) <= 204


def test_the_only_text_for_which_there_is_room_says_which_one_it_is() -> None:
    documents = [Document(f"orchestr8://skills/{name}", f"About {name}.") for name in ("a", "b", "c")]
    (alone,) = {
        text
        for budget in range(1, 200)
        for text, content in [forms(documents, budget)]
        if len(content["documents"]) == 1 and content["documents"][0]["text"] == "About a."
    }
    assert alone.startswith("## orchestr8://skills/a\n~~~~\nAbout a.\n~~~~\n\n[left out: 2 texts; ")
