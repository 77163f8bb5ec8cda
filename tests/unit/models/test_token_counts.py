"""How many tokens a text and a request are."""
# ruff: noqa: E501, RUF001  # texts in many scripts

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import DependencyError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import FileContent, ImageContent, Native, ReasoningContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.counting import (
    MESSAGE_OVERHEAD,
    count_canister,
    count_canisters,
    estimate_request,
)
from vibe_llms.models.tokens import (
    ENCODINGS,
    TokenCount,
    count_encoded,
    count_text,
    estimate_text,
    estimate_texts,
)

ROOT = Path(__file__).parents[3]

# What people and programs write. Nobody's text but this test's.
TEXTS = {
    "english": (
        "The quick brown fox jumps over the lazy dog. Nobody in the village "
        "remembered when the old clock had stopped, but everyone agreed that "
        "mornings had become quieter since then."
    ),
    "german": (
        "Der schnelle braune Fuchs springt über den faulen Hund. Niemand im Dorf "
        "erinnerte sich daran, wann die alte Turmuhr stehengeblieben war, aber alle "
        "waren sich einig, dass die Vormittage seither stiller geworden seien."
    ),
    "french": (
        "Personne dans le village ne se souvenait du moment où la vieille horloge "
        "s'était arrêtée, mais chacun convenait que les matinées étaient devenues "
        "plus calmes depuis lors."
    ),
    "finnish": (
        "Kukaan kylässä ei muistanut, milloin vanha kello oli pysähtynyt, mutta "
        "kaikki olivat yhtä mieltä siitä, että aamut olivat sen jälkeen hiljentyneet "
        "huomattavasti."
    ),
    "turkish": (
        "Köyde hiç kimse eski saatin ne zaman durduğunu hatırlamıyordu, ama herkes o "
        "günden beri sabahların daha sessiz geçtiği konusunda hemfikirdi."
    ),
    "vietnamese": (
        "Không ai trong làng nhớ chiếc đồng hồ cũ đã ngừng chạy từ khi nào, nhưng "
        "mọi người đều đồng ý rằng những buổi sáng đã trở nên yên tĩnh hơn kể từ đó."
    ),
    "russian": (
        "Никто в деревне не помнил, когда остановились старые часы, но все "
        "соглашались, что с тех пор по утрам стало гораздо тише, чем прежде."
    ),
    "greek": (
        "Κανείς στο χωριό δεν θυμόταν πότε είχε σταματήσει το παλιό ρολόι, αλλά όλοι "
        "συμφωνούσαν ότι από τότε τα πρωινά είχαν γίνει πιο ήσυχα."
    ),
    "chinese": "村里没有人记得那座旧钟是什么时候停的，但大家都同意，从那以后早晨变得更加安静了。孩子们依旧在河边玩耍，老人们坐在树下聊天。",
    "japanese": (
        "村の誰もその古い時計がいつ止まったのか覚えていなかったが、それ以来、朝がいっそう静かになったことには皆が同意していた。コンピューターも動かない。"
    ),
    "korean": "마을 사람 누구도 그 낡은 시계가 언제 멈췄는지 기억하지 못했지만, 그 뒤로 아침이 더 조용해졌다는 데에는 모두가 동의했다.",
    "arabic": (
        "لم يتذكر أحد في القرية متى توقفت الساعة القديمة، لكن الجميع اتفقوا على أن "
        "الصباح أصبح أكثر هدوءا منذ ذلك الحين."
    ),
    "hebrew": ("איש בכפר לא זכר מתי נעצר השעון הישן, אבל כולם הסכימו שמאז נעשו הבקרים שקטים יותר."),
    "hindi": (
        "गाँव में किसी को याद नहीं था कि पुरानी घड़ी कब रुकी थी, लेकिन सब इस बात पर "
        "सहमत थे कि तब से सुबहें और शांत हो गई हैं।"
    ),
    "thai": ("ไม่มีใครในหมู่บ้านจำได้ว่านาฬิกาเก่าหยุดเดินเมื่อไร แต่ทุกคนเห็นพ้องกันว่าตั้งแต่นั้นมายามเช้าเงียบสงบขึ้น"),
    "tamil": (
        "பழைய கடிகாரம் எப்போது நின்றது என்று கிராமத்தில் யாருக்கும் நினைவில்லை, "
        "ஆனால் அன்று முதல் காலை நேரம் அமைதியாகிவிட்டது."
    ),
    "amharic": ("በመንደሩ ውስጥ አሮጌው ሰዓት መቼ እንደቆመ ማንም አላስታወሰም፤ ነገር ግን ከዚያ ወዲህ ጠዋቱ ጸጥ ማለቱን ሁሉም ተስማሙ።"),
    "emoji with words": "🎉🎉 Great job team! 👩\u200d💻👨\u200d🚀 🏳️\u200d🌈 ❤️ 👍🏽 🇩🇪🇯🇵 ✅ 🚀🚀🚀",
    "emoji alone": "😀😃😄😁😆😅🤣😂🙂🙃😉😊😇🥰😍🤩",
    "json": (
        '{"name": "get_weather", "arguments": {"city": "Tübingen", "days": 3, '
        '"units": "metric", "ids": [10234, 88213, 99120]}}'
    ),
    "a hash": "b179c952e1f0a4d37c55aa10ffee0912cc0031de9f7ab3b2d1d1550e6a7c8899",
    "base64": (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4"
        "z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
    ),
    "ids": ("550e8400-e29b-41d4-a716-446655440000 6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    "numbers": ("3.14159265358979 2.71828182845905 1,000,000 42 2026-11-22T01:31:12Z 192.168.0.1"),
    "a table": "id,name,price\n1,apple,0.50\n2,pear,0.75\n3,plum,1.20\n" * 5,
    "markdown": (
        "# Title\n\n- one\n- two\n\n```python\nprint('x')\n```\n\n| a | b |\n| --- | "
        "--- |\n| 1 | 2 |\n"
    ),
    "indentation": "def f():\n        if x:\n                return 1\n\n\n\n",
    "an address": "https://example.org/api/v1/users/12345?sort=desc&limit=50#section-2",
    "mathematics": "∑_{i=1}^{n} x_i² ≤ ∫₀^∞ e^{−x} dx ∀ε>0 ∃δ",
    "chemistry": "C₆H₁₂O₆ + 6 O₂ → 6 CO₂ + 6 H₂O",
    "capitals": ("WARNING: THIS MACHINE STARTS AUTOMATICALLY. KEEP HANDS CLEAR OF MOVING PARTS."),
    "a greeting": "Hi",
    "one character": "日",
    "one emoji of three": "👩\u200d💻",
    "a drawn box": "┌──────┬──────┐\n│ a    │ b    │\n└──────┴──────┘\n",
    "one endless word": "ATGCGTACGTTAGCCTAGGATCGATCGATTACGCGCGATATCG",
    "names in programs": (
        "getUserAccountBalanceByCustomerId HTTPRequestHandlerFactoryBean "
        "__init_subclass__ kMaxBufferSize"
    ),
}

FILES = sorted(
    [
        *(ROOT / "sources").rglob("*.py"),
        *(ROOT / "documentation").rglob("*.rst"),
        *(ROOT / "data").rglob("*.toml"),
        *(ROOT / "data" / "schemas").glob("*.json"),
    ]
)


def access(address: str) -> ModelAttributes:
    catalogue = Catalogue()
    return catalogue.access_attributes(catalogue.resolve_address(address))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_true_count_lies_inside_the_bound(name: str, encoding: str) -> None:
    """For both public encodings, in every script and kind of text of the collection."""
    text = TEXTS[name]
    count = estimate_text(text)

    true = count_encoded(text, encoding).tokens

    assert abs(count.tokens - true) <= count.error_tokens, (count, true)


@pytest.mark.slow
def test_source_code_and_manuals_lie_inside_the_bound_which_is_not_vast() -> None:
    """Every file of this project; over all of them the estimate is good to an eighth."""
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    counts = [estimate_text(text) for text in texts]
    true = [count_encoded(text, ENCODINGS[0]).tokens for text in texts]

    off = [
        str(path)
        for path, count, tokens in zip(FILES, counts, true, strict=True)
        if abs(count.tokens - tokens) > count.error_tokens
    ]
    assert not off
    assert abs(sum(count.tokens for count in counts) - sum(true)) < sum(true) / 8
    assert sum(count.error_tokens for count in counts) < sum(true) * 0.6


@given(st.text())
def test_any_text_has_an_estimate_that_is_possible(text: str) -> None:
    """At least one token where there is anything, and no token is shorter than a byte."""
    count = estimate_text(text)

    assert bool(text) <= count.tokens <= len(text.encode("utf-8", "replace"))
    assert count.error_tokens >= 2 * bool(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["ab-", "a1", "x", "=", " ", "\n", "日", "a ", "👩‍💻", "\0", "1a_"]
)
def test_the_work_grows_with_the_text_and_no_faster(unit: str) -> None:
    """A text of a million characters is no trap: each is looked at once."""
    pieces = estimate_text(unit * (1_000_000 // len(unit)))

    assert pieces.tokens > 0


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_counting_is_what_the_package_for_it_encodes(encoding: str, text: str) -> None:
    """The fast way past its list of tokens gives the length of that list."""
    count_encoded("", encoding)  # imports it
    from bpe_openai import get_encoding

    expected = get_encoding(encoding).encode_ordinary(text)

    assert count_encoded(text, encoding) == TokenCount(tokens=len(expected))


def test_control_tokens_and_half_characters_are_plain_text() -> None:
    """What a user types is no command to the tokenizer, and no error."""
    assert count_encoded("<|endoftext|>", "o200k_base").tokens > 1
    assert count_encoded("half \ud83d", "o200k_base").tokens >= 2


@pytest.mark.parametrize(
    ("address", "encoding"),
    [
        ("openai_responses:gpt-5.4", "o200k_base"),
        ("openai_conversations:gpt-4o-mini", "o200k_base"),
        ("openai_conversations:o3", "o200k_base"),
        ("openai_conversations:gpt-4-turbo", "cl100k_base"),
    ],
)
def test_a_known_encoding_is_counted_exactly(address: str, encoding: str) -> None:
    """The family says which encoding; there is nothing to estimate."""
    text = TEXTS["german"]

    assert count_text(text, access(address)) == count_encoded(text, encoding)


@pytest.mark.parametrize("address", ["anthropic:claude-opus-5-5", "openai_responses:gpt-6-sol"])
def test_an_unknown_encoding_widens_the_bound(address: str) -> None:
    """It says that nobody outside the vendor knows; even the model may be unknown."""
    text = TEXTS["german"]

    count = count_text(text, access(address))

    assert count.tokens == estimate_text(text).tokens
    assert count.error_tokens > estimate_text(text).error_tokens
    assert count_text(text) == count


def test_without_the_package_exactness_is_an_error_and_counting_an_estimate() -> None:
    """Whoever insists hears the command that installs it; whoever does not gets a bound."""
    code = (
        "import sys; sys.modules['bpe_openai'] = None\n"
        "from vibe_llms.models.catalogue import Catalogue\n"
        "from vibe_llms.models.tokens import count_encoded, count_text, estimate_text\n"
        "attributes = Catalogue().access_integrator('openai_responses').integrate('gpt-5')\n"
        "assert count_text('Good morning', attributes) == estimate_text('Good morning')\n"
        "try: count_encoded('x', 'o200k_base')\n"
        "except ImportError as error: print(type(error).__name__, error.remedy)\n"
    )

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert finished.stderr == ""
    command = (
        f'{DependencyError.__name__} Install it: "{sys.executable}" -m pip install "bpe-openai'
    )
    assert finished.stdout.startswith(command)


def test_counts_add_up_with_what_they_may_be_off() -> None:
    """The bound of a sum is the sum of the bounds."""
    assert TokenCount(tokens=3, error_tokens=1) + TokenCount(tokens=4) == TokenCount(
        tokens=7, error_tokens=1
    )
    assert TokenCount(tokens=10, error_tokens=1).widen(0.25).error_tokens == 4


LOOK_UP = InvocableDescription(
    name="look_up",
    description="Looks a word up in the dictionary.",
    schema={"type": "object", "properties": {"word": {"type": "string"}}},
)
REQUEST = Request(canisters=(UserCanister("What is a clock?"),))


def test_a_request_is_more_than_its_text_and_never_exact() -> None:
    """How a vendor wraps messages is its own affair, which the bound says."""
    attributes = access("openai_conversations:gpt-4o")

    whole = estimate_request(REQUEST, attributes)

    assert whole.tokens == count_text("What is a clock?", attributes).tokens + 4 + 3
    assert whole.error_tokens == 7


@pytest.mark.parametrize(
    "more",
    [
        {"canisters": (SupervisorCanister("Be brief."), *REQUEST.canisters)},
        {"invocables": (LOOK_UP,)},
        {"schema": {"type": "object", "properties": {"answer": {"type": "string"}}}},
        {
            "canisters": (
                *REQUEST.canisters,
                AssistantCanister("I will look."),
                InvocationCanister(
                    invocation_id="1", name="look_up", arguments='{"word": "clock"}'
                ),
                ResultCanister("A machine that tells the time.", invocation_id="1"),
            )
        },
        {
            "canisters": (
                UserCanister(
                    (
                        "What is a clock?",
                        ImageContent(mime_type="image/png", url="https://example.org/clock.png"),
                    )
                ),
            )
        },
    ],
    ids=["supervisor", "invocables", "schema", "exchange", "picture"],
)
def test_whatever_is_added_to_a_request_adds_tokens(more: dict[str, object]) -> None:
    """Nothing that is sent is forgotten, in the count or in the bound."""
    attributes = access("openai_conversations:gpt-4o")
    less = estimate_request(REQUEST, attributes)

    count = estimate_request(attrs.evolve(REQUEST, **more), attributes)

    assert count.tokens > less.tokens
    assert count.error_tokens > less.error_tokens


def test_every_kind_of_content_has_a_count() -> None:
    """Documents, signed reasoning and a vendor's own blocks too, each with a bound."""
    contents = [
        ReasoningContent(text="First I look at the dial."),
        ReasoningContent(signature="x" * 400, native=Native(protocol="messages", data="{}")),
        FileContent(mime_type="text/plain", data=b"Once upon a time"),
        FileContent(mime_type="application/pdf", data=b"%PDF" + b"x" * 4000),
        FileContent(mime_type="application/pdf", file_id="file-1"),
    ]
    canisters = [AssistantCanister([content]) for content in contents]

    counts = [count_canister(canister, None) for canister in canisters]

    least = MESSAGE_OVERHEAD
    assert all(each.tokens > least.tokens for each in counts)
    assert all(each.error_tokens > least.error_tokens for each in counts)
    assert count_canisters(canisters, None).tokens == sum(each.tokens for each in counts)


@given(st.lists(st.text(" \n\tab7é", max_size=4), max_size=40))
def test_many_texts_are_estimated_in_parts_as_in_one(texts: list[str]) -> None:
    """Texts are divided only where no blanks meet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vibe_llms.models.tokens._TEXTS_AT_A_TIME", 3)
        divided = estimate_texts(texts)

    assert divided == estimate_texts(texts)
