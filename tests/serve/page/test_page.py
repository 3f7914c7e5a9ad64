"""The page's JSON API, as its script uses it."""

import asyncio
import json
import re
import threading
from typing import Any

import attrs
import pytest

from engine_adapter.embedded.engine import Engine
from engine_adapter.outcome import Aborted, Failed, Finished, FinishReason, Usage
from engine_adapter.serve.ends import KEPT, LONGEST, Ends
from engine_adapter.serve.http import embeddings
from engine_adapter.serve.http.completions import CompletionShape, CompletionStream
from engine_adapter.serve.http.page.aside import Aside
from engine_adapter.serve.http.page.requests import MAX_BODY_BYTES
from engine_adapter.serve.http.page.sessions import Sessions
from engine_adapter.serve.http.page.tokens import TokenTable
from engine_adapter.serve.http.page.tries import Tries, Wish
from engine_adapter.serve.http.page.walk import Walk
from structout import Err, ErrorKind, GrammarError, Ok, Result, Status, Vocabulary
from structout.backend import BitmaskRow
from structout.compile import CompileService, Pending
from structout.discovery import discover
from structout.grammar import Grammar
from structout.spec import GrammarSpec, Policy
from tests.fakes import BYTES, EOS, TrieMatcher, TriePlugin, trie_grammar, trie_info
from tests.scripted import ScriptedRunner
from tests.serve.page.support import BACKENDS, Page, on_a_page, page_of, schema, texts
from tests.serve.support import GUARD_S, ByteTokenizer, GatedRunner, NeverReady, compile_service, guarded

COMPLETIONS = "/v1/completions"


# ---- trying --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_a_schema_is_walked_to_its_end_and_back(backend: str | None) -> None:
    async def main(page: Page) -> None:
        begun = await page.begin("json_schema", schema(enum=["yes", "no"]), backend=backend)
        path, walk = f"/page/tries/{begun['id']}", begun["walk"]
        assert begun["grammar"]["backend"] in ([backend] if backend else BACKENDS)
        assert (walk["text"], walk["is_complete"], walk["can_go_back"]) == ("", False, False)
        assert '"' in texts(walk)
        walk = (await page.post(path + "/token", token=ord('"')))["walk"]
        assert (walk["text"], sorted(texts(walk))) == ('"', ["n", "y"])
        said = await page.post(path + "/text", text='no" and more')
        assert said["taken"] in (len('no"'), len('no" ')), "white space may follow a value, or not"
        walk = (await page.post(path + "/back"))["walk"]
        assert (walk["text"], walk["is_complete"]) == ('"', False)
        walk = (await page.post(path + "/text", text='no"'))["walk"]
        assert (walk["is_complete"], walk["is_ended"]) == (True, False)
        assert {"id": EOS, "text": "</s>", "is_end": True} in walk["allowed"]["shown"]
        walk = (await page.post(path + "/token", token=EOS))["walk"]
        assert (walk["is_ended"], walk["allowed"]["count"]) == (True, 0)

    on_a_page(main)


@pytest.mark.parametrize(
    ("kind", "text", "first"),
    [
        ("regex", "[ab]", {"a", "b"}),
        ("choice", "yes\n\nno\n", {"y", "n"}),
        ("ebnf", 'root ::= "(" [0-9]', {"("}),
        ("lark", 'start: "(" ("a" | "b")', {"("}),
        ("json_object", "", {"{"}),
        (
            "structural_tag",
            '{"type": "structural_tag", "format": {"type": "const_string", "value": "<x>"}}',
            {"<"},
        ),
    ],
)
def test_every_kind_can_be_tried(kind: str, text: str, first: set[str]) -> None:
    async def main(page: Page) -> None:
        walk = (await page.begin(kind, text))["walk"]
        assert {shown.strip() for shown in texts(walk)} - {""} == first

    on_a_page(main)


def test_tokens_are_found_by_their_text() -> None:
    async def main(page: Page) -> None:
        begun = await page.begin("regex", "[a-z]*")
        path = f"/page/tries/{begun['id']}"
        found = (await page.get(path, search="b"))["walk"]["allowed"]
        assert [token["text"] for token in found["shown"]] == ["b", "ab"]
        assert (found["found"], found["count"]) == (2, begun["walk"]["allowed"]["count"])
        assert texts((await page.get(path, search="</s"))["walk"]) == ["</s>"]

    on_a_page(main)


def test_what_is_allowed_is_counted_where_it_is_not_shown() -> None:
    async def main(page: Page) -> None:
        begun = await page.begin("json_schema", schema(type="string"))
        path = f"/page/tries/{begun['id']}"
        allowed = (await page.post(path + "/text", text='"'))["walk"]["allowed"]
        assert allowed["count"] == allowed["found"] > len(allowed["shown"]) == 100

    on_a_page(main)


def test_what_a_backend_does_not_enforce_or_narrows_is_told() -> None:
    async def main(page: Page) -> None:
        text = schema(type="array", items={"type": "integer"}, uniqueItems=True)
        refused = (await page.begin("json_schema", text, backend="xgrammar"))["error"]
        assert (refused["kind"], refused["keyword"], refused["pointer"]) == ("unsupported", "uniqueItems", "")
        begun = await page.begin("json_schema", text, backend="xgrammar", enforcement="best_effort")
        assert [each["keyword"] for each in begun["grammar"]["unenforced"]] == ["uniqueItems"]

    on_a_page(main)


REFUSED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"kind": "json_schema", "text": "{"}, "invalid_spec", ""),
    (
        {"kind": "json_schema", "text": schema(properties={"a": {"type": "strong"}})},
        "invalid_spec",
        "/properties/a/type",
    ),
    ({"kind": "choice", "text": "\n"}, "invalid_spec", None),
    ({"kind": "regex", "text": "("}, "invalid_spec", None),
    ({"kind": "poem", "text": ""}, "invalid_spec", None),
    ({"kind": "regex", "text": "a", "backend": "nobody"}, "unavailable", None),
    ({"kind": "regex", "text": "a", "enforcement": "mild"}, "invalid_spec", "/enforcement"),
    ({"kind": "regex", "text": 5}, "invalid_spec", "/text"),
    ({"text": "a"}, "invalid_spec", "/kind"),
]


@pytest.mark.parametrize(("body", "kind", "pointer"), REFUSED, ids=str)
def test_what_is_wrong_is_said_with_its_place(body: dict[str, Any], kind: str, pointer: str | None) -> None:
    async def main(page: Page) -> None:
        response = await page.client.post("/page/tries", json=body)
        error = response.json()["error"]
        assert (response.status_code, error["kind"], error.get("pointer")) == (400, kind, pointer)
        assert error["message"]

    on_a_page(main)


def test_steps_that_cannot_be_made_are_refused_and_change_nothing() -> None:
    async def main(page: Page) -> None:
        begun = await page.begin("choice", "yes")
        path = f"/page/tries/{begun['id']}"
        for name, body in (("token", {"token": ord("n")}), ("token", {"token": -1}), ("token", {}), ("back", {})):
            said = await page.post(f"{path}/{name}", **body)
            assert said["error"]["kind"] == "invalid_spec"
        assert (await page.get(path))["walk"] == begun["walk"]

    on_a_page(main)


def test_a_body_has_to_be_json_by_name_and_of_a_bounded_size() -> None:
    async def main(page: Page) -> None:
        content = json.dumps({"kind": "choice", "text": "yes"})
        plain = await page.client.post("/page/tries", content=content, headers={"content-type": "text/plain"})
        assert (plain.status_code, plain.json()["error"]["kind"]) == (400, "invalid_spec")
        long = await page.client.post("/page/tries", json={"kind": "choice", "text": "y" * MAX_BODY_BYTES})
        assert (long.status_code, long.json()["error"]["kind"]) == (400, "too_complex")

    on_a_page(main)


def test_a_try_that_is_over_says_so() -> None:
    async def main(page: Page) -> None:
        path = f"/page/tries/{(await page.begin('choice', 'yes'))['id']}"
        assert (await page.client.delete(path)).status_code == 200
        gone = await page.client.get(path)
        assert (gone.status_code, gone.json()["error"]["kind"]) == (400, "unavailable")

    on_a_page(main)


# ---- bounds --------------------------------------------------------------------------------------------------------


def a_walk() -> Walk:
    return Walk.begin(trie_grammar("yes"), TokenTable(BYTES)).unwrap()


def test_walks_are_bounded_in_number_and_age() -> None:
    now = 0.0
    sessions = Sessions(limit=2, idle_s=10.0, clock=lambda: now)
    first, second = sessions.add(a_walk()), sessions.add(a_walk())
    assert isinstance(sessions.find(first), Ok)
    third = sessions.add(a_walk())
    assert isinstance(sessions.find(second), Err), "it was left alone for longest"
    now = 9.0
    assert isinstance(sessions.find(first), Ok)
    now = 12.0
    assert isinstance(sessions.find(first), Ok), "it was used since"
    assert isinstance(sessions.find(third), Err)
    assert len(sessions) == 1


class GatedMatcher(TrieMatcher):
    """Fills no row until `gate` is set."""

    gate = threading.Event()

    def fill(self, row: BitmaskRow) -> Status:
        assert self.gate.wait(GUARD_S)
        return super().fill(row)


def kind_of(result: Result[Any, GrammarError]) -> ErrorKind | None:
    return result.error.kind if isinstance(result, Err) else None


def test_a_slow_mask_holds_up_nobody_but_its_own_try() -> None:
    async def main() -> None:
        plugin = TriePlugin(trie_info(), trie_info("slow", GatedMatcher))
        service = CompileService(discover(plugins={"trie": plugin}, entry_points=[]), BYTES)
        tries = Tries(service, aside=Aside(threads=2, patience_s=0.05))
        wish = Wish(kind="choice", text="yes", backend="slow", policy=Policy.SOUND)
        GatedMatcher.gate.set()
        slow = (await tries.begin(wish)).unwrap()["id"]
        GatedMatcher.gate.clear()
        assert kind_of(await tries.look(slow, "")) is ErrorKind.TIMED_OUT
        assert kind_of(await tries.look(slow, "")) is ErrorKind.OVERLOADED, "the last look is under way"
        tries.aside._patience_s = GUARD_S  # the others are not in a hurry
        other = (await tries.begin(Wish(kind="choice", text="no", backend="trie", policy=Policy.SOUND))).unwrap()
        assert [token["text"] for token in other["walk"]["allowed"]["shown"]] == ["n"]
        GatedMatcher.gate.set()
        while kind_of(looked := await tries.look(slow, "")) is ErrorKind.OVERLOADED:
            await asyncio.sleep(0)
        assert looked.unwrap()["walk"]["allowed"]["count"] == 1
        service.close()

    guarded(main)


def test_calls_beside_the_loop_are_bounded() -> None:
    async def main() -> None:
        gate = threading.Event()
        aside = Aside(threads=1, patience_s=GUARD_S)
        first = asyncio.create_task(aside.run(lambda: gate.wait(GUARD_S)))
        await asyncio.sleep(0)
        assert kind_of(await aside.run(lambda: None)) is ErrorKind.OVERLOADED
        gate.set()
        assert await first == Ok(True)

    guarded(main)


def test_a_bug_is_contained_and_its_text_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise RuntimeError("secret internals")

    result = guarded(lambda: Aside().run(broken))
    assert isinstance(result, Err)
    assert result.error.kind is ErrorKind.ENGINE_FAILURE
    assert "secret" not in json.dumps(result.error.to_json())
    assert "secret internals" in caplog.text


# ---- requests ------------------------------------------------------------------------------------------------------


async def standing(page: Page, *wanted: tuple[str, int]) -> Any:
    """How requests stand, as soon as those under way have these states and numbers of tokens."""
    while True:
        said = await page.get("/page/requests")
        if [(each["state"], each["tokens"]) for each in said["under_way"]] == list(wanted):
            return said
        await asyncio.sleep(0.01)


def test_requests_under_way_are_listed_with_their_states() -> None:
    async def main() -> None:
        service, runner = NeverReady(), GatedRunner()
        engine = Engine(runner, service)
        async with page_of(engine) as page:
            held = asyncio.create_task(page.post(COMPLETIONS, prompt="ab", structured_outputs={"choice": ["a"]}))
            pending = await service.submitted.get()
            await standing(page, ("blocked", 0))
            free = asyncio.create_task(page.post(COMPLETIONS, prompt="ab", max_tokens=3))
            said = await standing(page, ("blocked", 0), ("decoding", 1))
            assert said["counts"] == {"blocked": 1, "waiting": 0, "prefilling": 0, "decoding": 1}
            assert all(each["seconds"] >= 0 for each in said["under_way"])
            refused = GrammarError(kind=ErrorKind.UNSUPPORTED, message="nobody does that", pointer="/a")
            pending.settle(Err(refused))
            runner.gate.set()
            await asyncio.gather(free, held)
            said = await page.get("/page/requests")
            assert (said["under_way"], said["ended"]) == ([], {"finished": 1, "aborted": 0, "failed": 1})
            [failure] = said["failures"]
            assert failure["error"] == attrs.evolve(refused, pointer="/structured_outputs/choice/a").to_json()

    guarded(main)


def test_a_request_that_is_refused_before_the_engine_is_listed_by_the_id_in_its_reply() -> None:
    async def main(page: Page) -> None:
        response = await page.client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 0})
        [failure] = (await page.get("/page/requests"))["failures"]
        assert failure["request_id"] == response.headers["x-request-id"]
        assert failure["error"]["pointer"] == "/max_tokens"

    on_a_page(main)


def test_a_failed_request_is_counted_once_and_says_no_internals() -> None:
    async def main(page: Page) -> None:
        await page.post(COMPLETIONS, prompt="ab", structured_outputs={"choice": ["raise"], "backend": "trie"})
        said = await page.get("/page/requests")
        assert said["ended"] == {"finished": 0, "aborted": 0, "failed": 1}
        assert said["failures"][0]["error"]["kind"] == "backend_failure"
        assert "secret" not in json.dumps(said)

    on_a_page(main, Engine(ScriptedRunner(), compile_service()))


@attrs.frozen
class NoCalls:
    """A compile service for whose grammars all calls of tools are a list with a number in it."""

    vocabulary = BYTES

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending: Pending[Grammar] = Pending()
        pending.settle(Ok(trie_grammar("[1]")))
        return pending


CALLS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_reply_that_is_no_use_to_its_endpoint_has_failed(is_stream: bool, n: int) -> None:
    """Although the engine has finished it."""

    async def main(page: Page) -> None:
        body = {**CALLS, "stream": is_stream, "n": n}
        response = await page.client.post("/v1/chat/completions", json=body)
        assert response.json()["error"]["code"] == "unusable_response"
        said = await page.get("/page/requests")
        assert said["ended"] == {"finished": 0, "aborted": 0, "failed": n}
        assert {each["error"]["kind"] for each in said["failures"]} == {"unusable_response"}
        assert all(each["request_id"].startswith(response.headers["x-request-id"]) for each in said["failures"])

    on_a_page(main, Engine(ScriptedRunner(), NoCalls()))


BUGS: list[tuple[str, dict[str, Any], object, str]] = [
    (COMPLETIONS, {"prompt": "a"}, CompletionShape, "choice"),
    (COMPLETIONS, {"prompt": "a", "stream": True}, CompletionStream, "delta"),
    (COMPLETIONS, {"prompt": "a", "stream": True}, CompletionStream, "end"),
    (COMPLETIONS, {"prompt": "a", "stream": True, "n": 3, "max_tokens": 60}, CompletionStream, "delta"),
    (COMPLETIONS, {"prompt": "a", "n": 3}, CompletionShape, "choice"),
    (COMPLETIONS, {"prompt": "a"}, CompletionShape, "judge"),
    ("/v1/embeddings", {"input": ["a", "b"]}, embeddings, "_embedding"),
    ("/v1/embeddings", {"input": ["a"]}, ByteTokenizer, "of_text"),
]


@pytest.mark.parametrize(("path", "body", "owner", "name"), BUGS)
def test_a_reply_that_a_bug_keeps_from_being_told_has_failed(
    monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], owner: object, name: str
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("secret internals")

    async def main(page: Page) -> None:
        response = await page.client.post(path, json={**body, "model": "scripted"})
        assert "engine_failure" in response.text
        answers = len(body["input"]) if name == "_embedding" else body.get("n", 1)
        while sum((said := await page.get("/page/requests"))["ended"].values()) < answers or said["under_way"]:
            await asyncio.sleep(0.01)
        assert said["ended"] == {"finished": 0, "aborted": 0, "failed": answers}
        assert said["failures"][0]["error"]["kind"] == "engine_failure"
        assert "secret" not in json.dumps(said)

    monkeypatch.setattr(owner, name, broken)
    on_a_page(main)


def test_ends_are_counted_and_only_the_last_failures_are_kept_and_not_long_ones() -> None:
    ends = Ends()
    usage = Usage(prompt_tokens=1, completion_tokens=1)
    ends.add("f", Finished(text="x", token_ids=(1,), reason=FinishReason.STOP, usage=usage))
    ends.add("a", Aborted())
    for number in range(KEPT + 3):
        error = GrammarError(kind=ErrorKind.INVALID_SPEC, message="m" * 9999, pointer="/p" * 9999, detail="secret")
        ends.add(f"{number}-{'i' * 9999}", Failed(error))
    assert ends.counts() == {"finished": 1, "aborted": 1, "failed": KEPT + 3}
    assert ends.outcomes() == {"ok": 1, "cancelled": 1, "invalid_spec": KEPT + 3}
    failures = ends.failures()
    assert [int(each.request_id.partition("-")[0]) for each in failures] == list(range(KEPT + 2, 2, -1))
    for each in failures:
        assert each.error.pointer is not None
        assert max(len(each.request_id), len(each.error.message), len(each.error.pointer)) == LONGEST
        assert each.error.detail is None


# ---- the files -----------------------------------------------------------------------------------------------------


def test_the_page_asks_for_its_own_files_only_and_has_nothing_inline() -> None:
    async def main(page: Page) -> None:
        html = await page.client.get("/")
        assert (html.status_code, html.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = html.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"\son\w+\s*=|\sstyle\s*=|<style|<script>|https?:|javascript:", html.text)
        linked = re.findall(r'(?:href|src)="(/[^"]+)"', html.text)
        assert len(linked) == 3
        for path in linked:
            asset = await page.client.get(path)
            assert asset.status_code == 200
            assert asset.headers["x-content-type-options"] == "nosniff"
            assert "http" not in asset.text.replace("http://www.w3.org/2000/svg", "")

    on_a_page(main)


def test_every_field_of_the_page_has_a_label() -> None:
    async def main(page: Page) -> None:
        html = (await page.client.get("/")).text
        fields = re.findall(r'<(?:input|select|textarea)[^>]*\bid="([^"]+)"', html)
        assert fields
        for field in fields:
            assert f'for="{field}"' in html or re.search(rf'<label><input id="{field}"', html)

    on_a_page(main)


def test_the_page_names_the_model_and_its_backends() -> None:
    async def main(page: Page) -> None:
        model = await page.get("/page/model")
        assert (model["name"], model["can_try"]) == ("scripted", True)
        assert set(BACKENDS) <= model["backends"].keys()
        assert "regex" in model["backends"]["xgrammar"]

    on_a_page(main)


def test_tokens_that_are_no_text_by_themselves_are_shown() -> None:
    table = TokenTable(BYTES)
    assert table.shown("é".encode()[0]).text == "\\xc3"
    assert table.shown(BYTES.padded_size - 1).text == f"token {BYTES.padded_size - 1}"
    assert table.shown(EOS).is_end
    control = Vocabulary.from_tokens([b"a", b"", b""], eos_token_ids=[1], control=[(1, "<end>"), (2, "<b>")])
    assert TokenTable(control).shown(2).text == "<b>"
