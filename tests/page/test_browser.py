"""The page in a real Chromium, in front of real servers."""

from __future__ import annotations

import random
import re
from contextlib import ExitStack
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from proxy.app import App
from proxy.demo import build_app
from proxy.demo_answers import MODELS
from proxy.rules import Rule, Start
from proxy.serve import beside
from proxy.settings import Entry, Server, Settings
from proxy.splitter import Channel
from tests.page.browsing import FLAGS, build_scripted, find_chromium, viewing, visible
from tests.servers import WAIT_S, serving
from tests.splitting.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser
    from starlette.applications import Starlette

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
KEY = "sk-page"
FOREVER_S = 86_400.0
ENTRIES = (
    Entry("demo/thinker", Rule(), "proxy.yaml:3"),
    Entry("demo/implicit", Rule(start=Start.IMPLICIT), "proxy.yaml:4", {"start": "set here"}),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only these tests need it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def demo() -> Starlette:
    return build_app(pace_s=0)


@pytest.fixture
def url(demo: Starlette) -> Iterator[str]:
    """A proxy in front of the demo models."""
    with serving(demo) as upstream, beside(App(Settings(upstream=upstream, entries=ENTRIES))) as url:
        yield url


def chat(url: str, model: str, **fields: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    httpx.post(f"{url}/v1/chat/completions", json=body, headers=fields).raise_for_status()


# The numbers


def test_it_loads_without_an_error_and_asks_only_the_proxy(browser: Browser, url: str) -> None:
    with viewing(browser, url) as view:
        view.page.wait_for_selector('#model option[value="demo/coder"]', state="attached")
        assert view.texts("#upstream-rows tr th") == ["default"]
        assert view.texts("#upstream-rows td .state") == ["reachable"]
        assert view.texts("#model-rows th > :first-child") == ["demo/thinker", "demo/implicit", "not listed"]
        assert "No requests yet" in view.texts("#model-note")[0]
        assert view.texts("#rule-rows summary .mono") == ["demo/thinker", "demo/implicit"]
        assert 'start: "implicit"  # set here' in view.texts("#rule-rows pre")[1]
        assert view.problems == []
        assert {urlsplit(asked).netloc for asked in view.asked if not asked.startswith("data:")} == {
            urlsplit(url).netloc
        }


def test_it_shows_what_was_counted(browser: Browser, url: str) -> None:
    with viewing(browser, url) as view:
        view.page.wait_for_selector("#model-rows tr")
        for model in ("demo/thinker", "demo/thinker", "demo/plain-tags"):
            chat(url, model)
        view.page.wait_for_function("() => document.getElementById('t-requests').textContent === '4'")
        rows = view.page.locator("#model-rows tr")
        requests = [rows.nth(at).locator("td").first.text_content() for at in range(3)]
        assert requests == ["2", "0", "2"]  # with the page's own look at the list of models
        chart = rows.first.locator("svg.hist").first
        words = chart.get_attribute("aria-label")
        assert words is not None
        assert words.startswith("Time to the first token, 2 answers: half ≤ ")
        assert chart.locator("rect").count() > 5
        assert view.page.locator("#model-note").is_hidden()


def test_it_says_when_the_proxy_cannot_be_reached_and_when_it_can_again(
    browser: Browser, demo: Starlette
) -> None:
    with ExitStack() as stack:
        upstream = stack.enter_context(serving(demo))
        settings = Settings(upstream=upstream, entries=ENTRIES)
        with beside(App(settings)) as url:
            view = stack.enter_context(viewing(browser, url))
            view.page.wait_for_selector("#model-rows tr")
        view.page.wait_for_selector("#alert :text('cannot be reached')")
        assert view.texts("#link") == ["not reachable"]
        assert view.page.locator("#models.stale").count() == 1
        with beside(App(settings), port=urlsplit(url).port):
            view.page.wait_for_selector("#alert > div", state="detached")
            assert view.texts("#link") == ["live"]
            assert view.page.locator(".stale").count() == 0


def test_it_asks_for_nothing_while_nobody_sees_it(browser: Browser, url: str) -> None:
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    with viewing(browser, url) as view:
        page = view.page
        page.clock.install()
        page.goto(f"{url}/_proxy/")
        page.wait_for_selector("#model-rows tr")
        for stop, go_on in (
            (lambda: page.evaluate(hide, arg=True), lambda: page.evaluate(hide, arg=False)),
            (lambda: page.click("#pause"), lambda: page.click("#pause")),
        ):
            with page.expect_response("**/state"):
                page.clock.run_for(3_500)
            stop()
            # What was under way may still come; it sets the timer, which then finds that nobody looks.
            page.clock.run_for(10_000)
            before = len(view.asked)
            page.clock.run_for(60_000)
            assert len(view.asked) == before
            with page.expect_response("**/state"):
                go_on()
        assert view.problems == []


# Keys


def test_with_keys_it_asks_for_one_and_keeps_it_in_the_tab(browser: Browser, demo: Starlette) -> None:
    with (
        serving(demo) as upstream,
        beside(App(Settings(upstream=upstream, entries=ENTRIES, api_keys=(KEY,)))) as url,
        viewing(browser, url) as view,
    ):
        page = view.page
        page.wait_for_selector("#alert :text('asks for a key')")
        assert view.texts("#model-rows tr") == []
        page.click("#key-open")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#alert :text('does not open it')")
        page.click("#key-open")
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#model-rows tr")
        page.wait_for_selector("#alert > div", state="detached")
        view.run("demo/thinker")
        view.wait_told("Done.")
        page.reload()
        page.wait_for_selector("#model-rows tr")
        kept = "({...sessionStorage}, [Object.values(sessionStorage), localStorage.length, document.cookie])"
        assert page.evaluate(kept) == [[KEY], 0, ""]
        assert KEY not in page.url
        page.click("#key-open")
        page.click("#key-forget")
        page.wait_for_selector("#alert :text('asks for a key')")
        assert page.evaluate("sessionStorage.length") == 0


def test_switched_off_there_is_no_page(browser: Browser, demo: Starlette) -> None:
    with (
        serving(demo) as upstream,
        beside(App(Settings(upstream=upstream, page=False))) as url,
        viewing(browser, url) as view,
    ):
        assert "not_found" in (view.page.text_content("body") or "")


# The bench


@pytest.mark.parametrize("model", ["demo/thinker", "demo/implicit"])
def test_the_bench_shows_both_sides(browser: Browser, url: str, model: str) -> None:
    with viewing(browser, url) as view:
        view.run(model)
        view.wait_told("Done.")
        marks, parts = view.marks(), view.parts()
        raw = MODELS[model].answers[0]
        assert "".join(visible(text) for _, text in marks) == visible(raw)
        assert "</think>" in {text.rstrip("↵") for kind, text in marks if kind == "del"}
        assert not [text for kind, text in marks if kind == "held"]
        moved = [text for kind, text in marks if kind == "mark"]
        assert [text for kind, text in parts if kind == "reasoning"] == [
            text.replace("\n", "↵", 1) if text.startswith("\n") else text for text in moved
        ]
        assert {kind for kind, _ in parts} == {"reasoning", "answer"}
        assert f"{sum(map(len, moved))} characters of reasoning" in view.texts("#told")[0]
        view.page.check("#events")
        wires = [view.page.text_content(f"#{side}-wire") or "" for side in ("raw", "split")]
        assert ["reasoning_content" in text for text in wires] == [False, True]
        assert all(text.endswith("data: [DONE]\n\n") for text in wires)
        assert view.problems == []


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_marks_are_right_for_the_whole_table_of_the_splitter(browser: Browser, finish: str) -> None:
    cases = [
        case
        for case in CASES
        if len(case.parts) == 1 and case.cut is (finish == "length") and 0 < len(case.parts[0]) < 4000
    ]
    assert len(cases) > 5
    dice = random.Random(7)
    answers: dict[str, list[str]] = {}
    for case in cases:
        (text,) = case.parts
        cuts = sorted({0, len(text), *(dice.randrange(len(text)) for _ in range(len(text) // 3))})
        answers[case.name] = [text[a:b] for a, b in pairwise(cuts)]
    entries = tuple(Entry(case.name, case.rule) for case in cases)
    wrong: dict[str, Any] = {}
    with (
        serving(build_scripted(answers, finish=finish)) as upstream,
        beside(App(Settings(upstream=upstream, entries=entries))) as url,
        viewing(browser, url) as view,
    ):
        # Hundreds of rows would be laid out anew each time.
        view.page.wait_for_selector("#model-rows tr")
        view.page.click("#pause")
        view.page.evaluate("['models', 'rules'].forEach(id => document.getElementById(id).remove())")
        for case in cases:
            view.run("m", rule=f"entry:{case.name}", prompt=case.name)
            view.wait_told("Done.")
            # White space may have moved to behind a block: where it came from it is marked as removed.
            kept = [(kind, strip(text)) for kind, text in view.marks() if kind != "del"]
            found = [
                (
                    {"mark": Channel.REASONING, "span": Channel.CONTENT}.get(kind),
                    "".join(text for _, text in run),
                )
                for kind, run in groupby((piece for piece in kept if piece[1]), key=lambda piece: piece[0])
            ]
            whole = "".join(visible(text) for _, text in view.marks())
            if found != merge(case.expected[0]) or whole != visible(case.parts[0]):
                wrong[case.name] = (view.marks(), case.expected[0])
        assert view.problems == []
    assert not wrong, "\n".join(f"{name}: {pair}" for name, pair in wrong.items())


def merge(pieces: tuple[tuple[Channel, str], ...]) -> list[tuple[Channel, str]]:
    seen = [(channel, strip(text)) for channel, text in pieces if strip(text)]
    return [
        (channel, "".join(text for _, text in run))
        for channel, run in groupby(seen, key=lambda piece: piece[0])
    ]


def strip(text: str) -> str:
    return re.sub(r"[\s\u200b\ufeff]", "", text)


def test_it_is_live_and_stop_frees_the_model_server(browser: Browser) -> None:
    demo = build_app(pace_s=0.05)
    with (
        serving(demo) as upstream,
        beside(App(Settings(upstream=upstream, entries=ENTRIES))) as url,
        viewing(browser, url) as view,
    ):
        view.run("demo/thinker")
        view.page.wait_for_selector("#raw mark")
        view.page.wait_for_selector("#split .thought")
        assert view.page.is_enabled("#stop")
        assert view.page.is_disabled("#run")
        view.page.click("#stop")
        view.wait_told("Stopped.")
        assert demo.state.stats.wait_until(
            lambda stats: stats.aborted == 1 and not stats.open_streams, WAIT_S
        )
        assert demo.state.stats.requests == 1
        assert view.page.is_enabled("#run")
        assert view.page.evaluate("document.activeElement.id") == "run"
        view.run("demo/thinker")
        view.page.wait_for_selector("#raw mark")
        view.page.close()
        assert demo.state.stats.wait_until(
            lambda stats: stats.aborted == 2 and not stats.open_streams, WAIT_S
        )


def test_an_unlisted_model_passes_through_and_a_rule_can_be_tried(browser: Browser, url: str) -> None:
    with viewing(browser, url) as view:
        view.run("demo/plain-tags")
        view.wait_told("Done.")
        raw = MODELS["demo/plain-tags"].answers[0]
        assert view.page.text_content("#raw") == raw
        assert view.parts() == [("as it came", raw)]
        assert "is not listed" in view.texts("#split .hint")[0]
        view.page.click("text=Run it with that rule")
        view.page.wait_for_selector("#split .thought")
        view.wait_told("Done.")
        assert [kind for kind, _ in view.parts()] == ["reasoning", "answer"]
        assert "A trial" in view.texts("#split .hint")[0]


def test_errors_are_shown(browser: Browser, url: str) -> None:
    with viewing(browser, url) as view:
        page = view.page
        page.wait_for_selector('#model option[value="demo/coder"]', state="attached")
        page.select_option("#model", "")
        page.fill("#other", "nobody/has-it")
        page.click("#run")
        view.wait_told("The model `nobody/has-it` does not exist.")
        page.fill("#prompt", " ")
        page.click("#run")
        view.wait_told("prompt is missing")
        assert page.locator("#told .error").count() == 1


def test_text_is_never_markup(browser: Browser) -> None:
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    answers = {"hi": [f"<think>{evil}", f"</think>{evil}"]}
    entry = Entry(evil, Rule(), f"{evil}:1")
    with (
        serving(build_scripted(answers, model=evil)) as upstream,
        beside(App(Settings(upstreams=(Server("a", upstream),), entries=(entry,)))) as url,
        viewing(browser, url) as view,
    ):
        page = view.page
        page.wait_for_selector("#model-rows tr")
        page.wait_for_function("() => document.getElementById('model').options.length === 2")
        page.fill("#prompt", "hi")
        page.click("#run")
        view.wait_told("Done.")
        assert [text for kind, text in view.marks() if kind in ("mark", "span")] == [evil, evil]
        assert page.locator("img, main script").count() == 0
        assert page.title() == "think-proxy"
        assert evil in view.texts("#model-rows th")[0]
        assert view.problems == []


# Looks, keyboard, screen readers


def test_dark_and_light_follow_the_system(browser: Browser, url: str) -> None:
    colours = []
    for scheme in ("light", "dark"):
        with viewing(browser, url, color_scheme=scheme) as view:
            shown = "name => getComputedStyle(document.querySelector(name)).backgroundColor"
            colours.append([view.page.evaluate(shown, name) for name in ("body", ".card")])
    light, dark = colours
    assert light == ["rgb(245, 246, 248)", "rgb(255, 255, 255)"]
    assert dark == ["rgb(14, 17, 22)", "rgb(22, 26, 34)"]


@pytest.mark.parametrize("width", [320, 390, 768, 1024])
def test_nothing_is_wider_than_the_window(browser: Browser, url: str, width: int) -> None:
    chat(url, "demo/thinker")
    with viewing(browser, url, viewport={"width": width, "height": 800}) as view:
        view.run("demo/thinker")
        view.wait_told("Done.")
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_can_be_done_with_the_keyboard(browser: Browser, url: str) -> None:
    with viewing(browser, url) as view:
        page = view.page
        page.wait_for_selector('#model option[value="demo/thinker"]', state="attached")
        page.wait_for_selector("#rule-rows summary")
        order = []
        for _ in range(40):
            page.keyboard.press("Tab")
            tag, name, ring = page.evaluate(
                "[document.activeElement.localName,"
                " document.activeElement.id || document.activeElement.textContent.trim(),"
                " getComputedStyle(document.activeElement).outlineStyle]"
            )
            if tag == "body":
                break
            assert ring == "solid", name
            order.append(name)
            if name == "prompt":
                page.keyboard.press("Control+Enter")
                view.wait_told("Done.")
        wanted = [
            *(
                "Skip to the numbers",
                "Upstreams",
                "Models",
                "Bench",
                "Rules",
                "pause",
                "key-open",
                "model",
                "rule",
            ),
            *("thinking", "tokens", "prompt", "run", "events", "raw", "split"),
        ]
        assert [name for name in order if name in wanted] == wanted
        page.focus("#key-open")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "key"
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "key-open"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(browser: Browser, url: str, scheme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in tests/page")
    for _ in range(2):
        chat(url, "demo/thinker")
    options: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    with viewing(browser, url, **options, bypass_csp=True) as view:
        page = view.page
        view.run("demo/thinker")
        view.wait_told("Done.")
        page.click("#rule-rows summary >> nth=0")
        page.evaluate(AXE.read_text(encoding="utf-8"))

        def violations() -> list[Any]:
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            return [(row["id"], [node["html"][:160] for node in row["nodes"]]) for row in found]

        assert violations() == []
        page.click("#key-open")
        assert violations() == []
        page.keyboard.press("Escape")
        page.route("**/state", lambda route: route.abort())
        page.wait_for_selector("#alert :text('cannot be reached')")
        assert violations() == []


def test_a_screen_reader_hears_what_changes_and_no_more(browser: Browser, url: str) -> None:
    with viewing(browser, url) as view:
        page = view.page
        page.wait_for_selector("#model-rows tr")
        live = page.evaluate(
            "[...document.querySelectorAll('[role=status], [role=alert], [aria-live]')].map(node => node.id)"
        )
        assert sorted(live) == ["alert", "link", "told"]
        page.evaluate(
            """() => {
                window.heard = 0;
                const what = { childList: true, characterData: true, subtree: true };
                const link = document.getElementById('link');
                new MutationObserver(() => { window.heard += 1; }).observe(link, what);
            }"""
        )
        for _ in range(2):
            with page.expect_response("**/state"):
                pass
        assert page.evaluate("window.heard") == 0
        assert page.locator("table caption").count() == 2
        assert page.locator("th[scope=col]").count() == 14
        assert page.locator("tbody tr").count() == page.locator("tbody th[scope=row]").count()
        assert page.locator("main, header, nav, footer").count() == 4
