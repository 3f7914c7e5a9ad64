"use strict";

// Whatever a client, a tokenizer or a backend wrote is put into the page as text: `element` sets `textContent`, and
// nothing here makes HTML of a string.

const byId = (id) => document.getElementById(id);

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// ---- the server ----------------------------------------------------------------------------------------------------

/** The reply's JSON. An error of the server's is thrown as it is; a server that cannot be reached, as one like it. */
async function ask(path, { method = "GET", body } = {}) {
  const options = { method };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let said;
  try {
    said = await (await fetch(path, options)).json();
  } catch {
    throw { kind: "unavailable", message: "the server cannot be reached" };
  }
  if (said.error) throw said.error;
  return said;
}

const PATIENCE = { times: 15, ms: 200 };

/** `ask`, again and again while a call before, such as a search, is still under way. */
async function askPatiently(path, options) {
  for (let left = PATIENCE.times; ; left--) {
    try {
      return await ask(path, options);
    } catch (error) {
      if (error.kind !== "overloaded" || left === 0) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PATIENCE.ms));
  }
}

// ---- texts ---------------------------------------------------------------------------------------------------------

const SIGNS = { " ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥" };

const hex = (character) => "\\x" + character.charCodeAt(0).toString(16).padStart(2, "0");

/** A token's text with its white space and its control characters made visible. */
const visible = (text) => text.replace(/[ \x00-\x1f\x7f-\x9f]/g, (character) => SIGNS[character] ?? hex(character));

const tokens = (count) => `${count} ${count === 1 ? "token" : "tokens"}`;

const place = (pointer) => (pointer === "" ? "the root" : pointer);

/** What there is to say of an error, as elements. */
function errorParts(error) {
  const parts = [element("strong", error.kind.replaceAll("_", " "), "kind"), element("p", error.message)];
  const details = [
    ["At", error.pointer === undefined ? undefined : place(error.pointer)],
    ["At character", error.offset],
    ["Keyword", error.keyword],
    ["Backend", error.backend],
    ["Hint", error.hint],
    ["Backends that would take it", error.candidates?.join(", ")],
  ];
  const list = element("dl");
  for (const [name, value] of details) {
    if (value !== undefined) list.append(pair(name, String(value)));
  }
  return [...parts, list];
}

function pair(name, value) {
  const both = element("div");
  both.append(element("dt", name), element("dd", value, "text"));
  return both;
}

// ---- trying --------------------------------------------------------------------------------------------------------

const EXAMPLES = {
  json_schema: JSON.stringify(
    { type: "object", properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["name", "age"], additionalProperties: false },
    null,
    2,
  ),
  regex: "(19|20)[0-9]{2}-(0[1-9]|1[0-2])",
  choice: "yes\nno\nperhaps",
  ebnf: 'root ::= "(" root ")" | [0-9]+',
  lark: 'start: "(" start ")" | NUMBER\nNUMBER: /[0-9]+/',
  structural_tag: JSON.stringify(
    { type: "structural_tag", format: { type: "tag", begin: "<call>", content: { type: "json_schema", json_schema: { type: "boolean" } }, end: "</call>" } },
    null,
    2,
  ),
  json_object: "",
};

let backends = {};
let tryId = null;
let isBusy = false;

/** Does one thing at a time; its failure is shown. Buttons stay where they are, so that the focus does too. */
async function alone(doing) {
  if (isBusy) return;
  setBusy(true);
  try {
    byId("error").replaceChildren();
    await doing();
  } catch (error) {
    if (!error.kind) throw error;
    byId("error").replaceChildren(...errorParts(error));
  } finally {
    setBusy(false);
  }
}

function setBusy(busy) {
  isBusy = busy;
  document.querySelector("main").setAttribute("aria-busy", String(busy));
}

async function compile() {
  const former = tryId;
  tryId = null;
  byId("walk").hidden = true;
  byId("grammar").replaceChildren();
  if (former) ask(`/page/tries/${former}`, { method: "DELETE" }).catch(() => {});
  const wish = { kind: byId("kind").value, text: byId("text").value, enforcement: byId("enforcement").value };
  if (byId("backend").value) wish.backend = byId("backend").value;
  const begun = await ask("/page/tries", { method: "POST", body: wish });
  tryId = begun.id;
  showGrammar(begun.grammar);
  byId("walk").hidden = false;
  byId("typed").value = "";
  byId("search").value = "";
  showWalk(begun.walk);
}

function showGrammar(grammar) {
  const from = grammar.distribution ? ` (${grammar.distribution})` : "";
  const parts = [element("p", `Enforced by ${grammar.backend}${from}${grammar.is_risky ? ", apart from others" : ""}.`)];
  for (const [title, findings] of [["Not enforced", grammar.unenforced], ["Narrowed", grammar.narrowed]]) {
    if (!findings.length) continue;
    const list = element("ul");
    for (const each of findings) list.append(element("li", `${each.keyword} at ${place(each.pointer)}: ${each.reason}`));
    parts.push(element("p", `${title}:`), list);
  }
  byId("grammar").replaceChildren(...parts);
}

function showWalk(walk) {
  byId("so-far").textContent = walk.text;
  const progress = byId("progress");
  progress.className = walk.problem ? "stuck" : walk.is_complete || walk.is_ended ? "complete" : "";
  progress.textContent = `${progressOf(walk)} ${tokens(walk.length)}.`;
  if (walk.problem) byId("error").replaceChildren(...errorParts(walk.problem));
  byId("back").setAttribute("aria-disabled", String(!walk.can_go_back));
  showAllowed(walk.allowed);
}

function progressOf(walk) {
  if (walk.problem) return "It cannot go on from here.";
  if (walk.is_ended) return "The text has ended.";
  return walk.is_complete ? "The text is complete; it may end here." : "The text is not complete.";
}

function showAllowed(allowed) {
  const shown = allowed.shown.length;
  let count = `${tokens(allowed.count)} may follow`;
  if (allowed.found !== allowed.count) count += `, ${allowed.found} of them have the text in them`;
  if (shown < allowed.found) count += `; the first ${shown} are shown`;
  byId("count").textContent = `${count}.`;
  byId("tokens").replaceChildren(...allowed.shown.map(tokenItem));
}

function tokenItem(token) {
  const button = element("button", visible(token.text), token.is_end ? "end" : "");
  button.type = "button";
  button.title = token.is_end ? `token ${token.id}, ends the text` : `token ${token.id}`;
  button.addEventListener("click", () => alone(() => step("token", { token: token.id })));
  const item = element("li");
  item.append(button);
  return item;
}

async function step(name, body) {
  if (!tryId) return {};
  const said = await askPatiently(`/page/tries/${tryId}/${name}`, { method: "POST", body });
  byId("search").value = "";
  showWalk(said.walk);
  const gone = document.activeElement === document.body;
  if (gone) byId("so-far").focus(); // the token that had the focus is not there any more
  return said;
}

async function takeText() {
  const typed = byId("typed");
  const text = typed.value;
  if (!text || !tryId) return;
  const { taken } = await step("text", { text });
  const rest = [...text].slice(taken).join("");
  typed.value = rest;
  typed.focus();
  if (rest) throw { kind: "not_allowed", message: `${visible([...rest][0])} cannot follow here; what could was taken`, offset: taken };
}

async function back() {
  if (byId("back").getAttribute("aria-disabled") === "true") return;
  await step("back", {});
}

let lastSearch = 0;

/** Shows what was searched for last, in whatever order the answers come. */
async function search() {
  if (!tryId) return;
  const number = ++lastSearch;
  try {
    const said = await askPatiently(`/page/tries/${tryId}?search=${encodeURIComponent(byId("search").value)}`);
    if (number === lastSearch && !isBusy) showAllowed(said.walk.allowed);
  } catch (error) {
    byId("error").replaceChildren(...errorParts(error));
  }
}

function kindChanged() {
  const kind = byId("kind").value;
  const text = byId("text");
  if (text.value === "" || Object.values(EXAMPLES).includes(text.value)) text.value = EXAMPLES[kind];
  text.disabled = kind === "json_object";
  const chosen = byId("backend").value;
  const able = Object.keys(backends).filter((id) => backends[id].includes(kind));
  byId("backend").replaceChildren(new Option("the first that takes it", ""), ...able.map((id) => new Option(id, id)));
  byId("backend").value = able.includes(chosen) ? chosen : "";
}

// ---- requests ------------------------------------------------------------------------------------------------------

const REFRESH_MS = 2000;

function showRequests(said) {
  byId("unavailable").textContent = said.unavailable ? `No requests are taken: ${said.unavailable.message}` : "";
  const counts = Object.entries({ ...said.counts, ...said.ended });
  byId("counts").replaceChildren(...counts.map(([name, count]) => pair(name, String(count))));
  byId("under-way").replaceChildren(...said.under_way.map(underWayRow));
  byId("failures").replaceChildren(...said.failures.map(failureRow));
}

const STATES = { blocked: "blocked: waits for its grammar", waiting: "waiting: for a place to run" };

function underWayRow(request) {
  return row([request.request_id, STATES[request.state] ?? request.state, request.tokens, request.seconds.toFixed(1)]);
}

function failureRow(failure) {
  const error = failure.error;
  const where = error.pointer === undefined ? "" : ` (at ${place(error.pointer)})`;
  const time = new Date(failure.at * 1000).toLocaleTimeString();
  return row([time, failure.request_id, error.kind.replaceAll("_", " "), `${error.message}${where}`]);
}

function row(cells) {
  const made = element("tr");
  made.append(...cells.map((cell) => element("td", String(cell))));
  return made;
}

async function refresh() {
  if (document.hidden || !byId("refresh").checked) return;
  try {
    showRequests(await ask("/page/requests"));
  } catch (error) {
    byId("unavailable").textContent = error.message;
  }
}

async function keepRefreshing() {
  await refresh();
  setTimeout(keepRefreshing, REFRESH_MS);
}

// ---- the beginning -------------------------------------------------------------------------------------------------

async function begin() {
  byId("constraint-form").addEventListener("submit", (event) => {
    event.preventDefault();
    alone(compile);
  });
  byId("type-form").addEventListener("submit", (event) => {
    event.preventDefault();
    alone(takeText);
  });
  byId("back").addEventListener("click", () => alone(back));
  byId("search").addEventListener("input", search);
  byId("kind").addEventListener("change", kindChanged);
  document.addEventListener("visibilitychange", refresh);
  keepRefreshing();
  await alone(async () => {
    const model = await ask("/page/model");
    byId("model").textContent = model.name;
    backends = model.backends;
    kindChanged();
    if (!model.can_try) byId("constraint-form").hidden = true;
  });
}

begin();
