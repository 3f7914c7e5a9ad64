"""The page in headless Chromium, used as a person would use it."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from prometheus_client import CollectorRegistry

from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.http.server import HttpServer, bound_socket
from engine_adapter.serve.running import RunningEngine
from tests.scripted import ScriptedRunner
from tests.serve.page.support import BACKENDS, real_service, schema, served_with_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not os.environ.get("STRUCTOUT_BROWSER"), reason="there is no Chromium: make test-browser"),
]

EVIL = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"


@contextmanager
def server() -> Iterator[str]:
    """A server with a page, until the block ends; its address."""
    engine = Engine(ScriptedRunner(), real_service())
    running = RunningEngine(engine)
    running.start()
    is_up = threading.Event()
    serving = HttpServer(
        served_with_page(running), grace_s=0.0, metrics=CollectorRegistry(), announce=lambda: is_up.set()
    )
    with bound_socket("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            assert is_up.wait(60)
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            serving.should_exit = True
            thread.join()
            engine.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server() as where:
        yield where


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    executable = Path(os.environ["STRUCTOUT_BROWSER"]) / "chromium"
    with sync_playwright() as playwright:
        # Nothing but our own page is opened, and the sandbox wants what root in a container does not have.
        browser = playwright.chromium.launch(executable_path=str(executable.resolve()), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    """The page, as it is after loading. A test fails if anything in it raised, or was kept from running."""
    context = chromium.new_context()
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if "Security Policy" in said.text else None)
    opened.goto(address)
    says(opened, "model", "scripted")  # waited for by a locator: the page's policy forbids what a function would need
    yield opened
    assert wrong == []
    context.close()


def compile_on(page: Any, text: str, *, kind: str = "json_schema", backend: str = "") -> None:
    page.get_by_label("Kind").select_option(kind)
    page.get_by_label("Backend", exact=True).select_option(backend)
    page.get_by_label("Constraint", exact=True).fill(text)
    page.get_by_role("button", name="Compile").click()


def says(page: Any, place: str, text: str) -> None:
    """Waits until the element with that id has the text in it."""
    page.locator(f"#{place}", has_text=text).wait_for()


@pytest.mark.parametrize("backend", ["", *BACKENDS])
def test_a_person_walks_through_a_schema_to_its_end(page: Any, backend: str) -> None:
    compile_on(page, schema(enum=["yes", "no"]), backend=backend)
    says(page, "grammar", f"Enforced by {backend}")
    says(page, "progress", "The text is not complete. 0 tokens.")
    page.locator("#tokens").get_by_role("button", name='"', exact=True).click()
    says(page, "progress", "1 token.")
    assert sorted(page.locator("#tokens button").all_inner_texts()) == ["n", "y"]
    page.locator("#tokens").get_by_role("button", name="y", exact=True).click()
    says(page, "so-far", '"y')
    page.get_by_role("button", name="Back a step").click()
    says(page, "progress", "1 token.")
    page.get_by_label("Go on with a text").fill('no"')
    page.get_by_label("Go on with a text").press("Enter")
    says(page, "progress", "The text is complete")
    assert page.locator("#so-far").text_content() == '"no"'
    says(page, "count", "1 token may follow.")
    page.get_by_role("button", name="</s>").click()
    says(page, "progress", "The text has ended.")
    assert page.locator("#tokens button").count() == 0


def test_tokens_are_searched_by_their_text(page: Any) -> None:
    compile_on(page, "[a-z]*", kind="regex")
    says(page, "count", "tokens may follow")
    page.get_by_label("Tokens with this text in them").fill("b")
    says(page, "count", "2 of them have the text in them")
    assert page.locator("#tokens button").all_inner_texts() == ["b", "ab"]


def test_what_cannot_follow_is_left_in_the_field(page: Any) -> None:
    compile_on(page, "(19|20)[0-9]{2}", kind="regex")
    field = page.get_by_label("Go on with a text")
    field.fill("19x9")
    page.get_by_role("button", name="Take").click()
    says(page, "error", "x cannot follow here")
    assert (page.locator("#so-far").text_content(), field.input_value()) == ("19", "x9")


def test_it_can_be_used_without_a_mouse(page: Any) -> None:
    page.get_by_label("Kind").select_option("choice")
    page.get_by_label("Constraint", exact=True).fill("ab\nac")
    page.get_by_label("Constraint", exact=True).press("Tab")
    page.keyboard.press("Enter")
    says(page, "progress", "0 tokens")
    page.locator("#tokens").get_by_role("button", name="a", exact=True).focus()
    page.keyboard.press("Enter")
    says(page, "progress", "1 token.")
    assert page.evaluate("document.activeElement.id") == "so-far", "the focus does not get lost with the token"


def test_an_error_is_shown_with_its_pointer(page: Any) -> None:
    compile_on(page, schema(type="object", properties={"age": {"type": "integr"}}))
    says(page, "error", "/properties/age/type")
    says(page, "error", "invalid spec")
    assert page.locator("#walk").is_hidden()


def test_what_is_not_enforced_is_listed(page: Any) -> None:
    page.get_by_label("Enforcement").select_option("best_effort")
    compile_on(page, schema(type="array", items={"type": "integer"}, uniqueItems=True), backend="xgrammar")
    says(page, "grammar", "Not enforced:")
    says(page, "grammar", "uniqueItems at the root")


def test_a_failed_request_is_shown_with_its_cause(page: Any, address: str) -> None:
    schema_of_it = {"type": "object", "properties": {"<b>": {"type": EVIL}}}
    body = {"prompt": "ab", "structured_outputs": {"json": schema_of_it}}
    response = httpx.post(f"{address}/v1/completions", json=body, timeout=60)
    assert response.status_code == 400
    row = page.locator("#failures tr", has_text=response.headers["x-request-id"])
    row.wait_for()
    assert "invalid spec" in row.inner_text()
    assert response.json()["error"]["param"] in row.inner_text()
    assert page.title() == "structout"


def test_what_was_sent_is_shown_as_text(page: Any) -> None:
    compile_on(page, schema(type="object", properties={EVIL: {"type": EVIL}}))
    says(page, "error", "<script>")
    compile_on(page, schema(enum=[EVIL]))
    page.get_by_label("Go on with a text").fill(json.dumps(EVIL))
    page.get_by_role("button", name="Take").click()
    says(page, "so-far", "<script>")
    compile_on(page, EVIL, kind="choice")
    says(page, "progress", "0 tokens")
    page.get_by_label("Go on with a text").fill(EVIL)
    page.get_by_role("button", name="Take").click()
    says(page, "so-far", EVIL)
    assert page.locator("main script, main img").count() == 0
    assert page.title() == "structout"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_in_dark(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    compile_on(page, "yes\nno", kind="choice")
    says(page, "progress", "0 tokens")
    for place in ("body", "#tokens button", "#compile", "label", "#progress"):
        assert contrast(page, place) >= 4.5, place


def contrast(page: Any, selector: str) -> float:
    """Of an element's text against what is behind it, as WCAG 2 counts it."""
    ink, ground = page.locator(selector).first.evaluate(
        """element => {
            let behind = element;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            const numbers = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
            return [numbers(getComputedStyle(element).color), numbers(getComputedStyle(behind).backgroundColor)];
        }"""
    )
    lighter, darker = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: list[float]) -> float:
    linear = [(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in (each / 255 for each in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
