"use strict";

// The page shows the state that the server sends, all of it with every event.
// Texts become text nodes: nothing here makes HTML of a string.

const $ = (id) => document.getElementById(id);

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function element(name, className, text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

const copyOf = (template) => $(template).content.firstElementChild.cloneNode(true);

// sync makes the children of parent those of items, by key: what was there
// stays the same element, so that focus, selection and what is open stay too.
function sync(parent, items, key, make, update = () => {}) {
  const wanted = new Set(items.map((item) => String(key(item))));
  const present = new Map();
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) present.set(child.dataset.key, child);
    else child.remove();
  }
  items.forEach((item, i) => {
    let child = present.get(String(key(item)));
    if (!child) {
      child = make(item);
      child.dataset.key = key(item);
    }
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
    update(child, item);
  });
}

// --- showing ---

let shown; // the state before

function show(state) {
  if (shown && shown.run !== state.run) {
    // Another run of the program: nothing of the former one is still true.
    for (const id of ["log", "invocation-list", "session-list", "login-list"]) $(id).replaceChildren();
    shown = undefined;
  }
  const { counters, chosen, conditions, sessions, invocations, log, logins } = state;
  setText($("inspections"), String(counters.inspections));
  setText($("negotiations"), String(counters.negotiations));
  setText($("performed"), String(counters.performed));
  setText($("before"), String(counters.before));
  setText($("total"), String(counters.requests));

  for (const button of document.querySelectorAll("#controls .choice button")) {
    button.setAttribute("aria-pressed", String(chosen[button.dataset.do] === button.dataset.value));
  }
  const pause = document.querySelector("[data-do=pause]");
  pause.setAttribute("aria-pressed", String(chosen.pause === "on"));
  pause.dataset.value = chosen.pause === "on" ? "off" : "on";
  sync($("conditions"), conditions ?? [], (text) => text, (text) => element("li", "", text));

  sync($("as"), sessions, (s) => s.id, (s) => new Option("", s.id), (option, s) => setText(option, s.name));
  sync($("session-list"), sessions, (s) => s.id, () => copyOf("session"), showSession);
  sync($("login-list"), logins ?? [], (l) => l.id, () => copyOf("login"), showLogin);
  $("no-logins").hidden = Boolean(logins);
  sync($("invocation-list"), invocations ?? [], (i) => i.id, () => copyOf("invocation"), showInvocation);
  $("older").hidden = !state.older;
  setText($("older"), state.older ? `${state.older} older ones are not shown.` : "");
  sync($("log"), log ?? [], (entry) => entry.n, logRow);
  $("quiet").hidden = Boolean(log);

  tellNews(invocations ?? []);
  shown = state;
}

function showSession(item, session) {
  setText(item.querySelector("strong"), session.name);
  const rotations = session.rotations ? `, renewed ${session.rotations}×` : "";
  setText(item.querySelector(".state"), session.state + rotations);
  item.querySelector(".state").dataset.live = session.live;
  setText(item.querySelector(".id"), session.id);
  showButtons(item, item.querySelector(".buttons"), session.buttons, session.id, session.name);
}

function showLogin(item, login) {
  setText(item.querySelector("strong"), login.device);
  setText(item.querySelector(".state"), login.state);
  item.querySelector(".state").dataset.live = login.live;
  setText(item.querySelector(".note"), login.for);
  const decide = item.querySelector(".decide");
  decide.hidden = !login.page;
  if (login.page) decide.href = login.page;
  else decide.removeAttribute("href");
  showButtons(item, item.querySelector(".buttons"), login.buttons ?? [], login.id, login.device);
}

function showInvocation(card, invocation) {
  const find = (selector) => card.querySelector(selector);
  const short = `${invocation.id.slice(0, 8)}…${invocation.id.slice(-4)}`;
  card.setAttribute("aria-label", `${invocation.tool} ${short}`);
  card.dataset.tone = invocation.tone;
  setText(find("h3"), invocation.tool);
  setText(find(".progress"), invocation.progress);
  setText(find(".id"), invocation.id);
  const { times, last, status } = invocation.asked;
  setText(find(".asked"), times ? `asked ${times}×, last at ${last}: ${status}` : "its receipt was not asked for yet");

  sync(find(".timeline"), invocation.steps, (step) => step.name, timelineStep, (item, step) => {
    item.dataset.mark = step.mark;
    setText(item.querySelector(".value"), step.value);
  });
  setText(find(".sentence"), invocation.sentence);
  setText(find(".advice"), invocation.advice);
  showButtons(card, find(".meaning > .buttons"), invocation.buttons, invocation.id, short);
  for (const button of card.querySelectorAll(".damage button")) button.dataset.on = invocation.id;

  const answer = invocation.answer;
  const good = answer.to === "receipt" && answer.status.startsWith("200");
  setText(find("h4"), good ? "The receipt now" : "No receipt now");
  sync(find("dl"), invocation.facts ?? [], ([name]) => name, fact, (row, [, value]) => setText(row.lastChild, value));
  setText(find(".answer summary"), `The Hub's answer to ${answer.to || "nobody"}: ${answer.status}`);
  const body = find("pre");
  body.setAttribute("aria-label", `The answer about ${short}`);
  // Somebody may be copying from it.
  const selection = getSelection();
  if (selection.isCollapsed || !body.contains(selection.anchorNode)) setText(body, answer.body);
}

function timelineStep(step) {
  const item = element("li");
  item.append(element("span", "name", step.name), " ", element("span", "value"));
  return item;
}

function fact([name]) {
  const row = element("div");
  row.append(element("dt", "", name), element("dd"));
  return row;
}

// showButtons shows the buttons of a session or an invocation. Where the one
// with the focus has gone, the focus goes to what it stood on.
function showButtons(owner, row, buttons, on, what) {
  const focused = row.contains(document.activeElement);
  sync(row, buttons, (b) => b.do, (b) => {
    const button = element("button", "", b.label);
    button.type = "button";
    button.setAttribute("aria-label", `${b.label}: ${what}`);
    Object.assign(button.dataset, { do: b.do, value: b.value ?? "", on });
    return button;
  });
  if (focused && !row.contains(document.activeElement)) {
    owner.tabIndex = -1;
    owner.focus({ preventScroll: true });
  }
}

function logRow(entry) {
  const row = element("tr");
  row.setAttribute("role", "row");
  for (const name of ["time", "method", "path", "status", "session"]) {
    const cell = element("td", name, entry[name] || "–");
    cell.setAttribute("role", "cell");
    row.append(cell);
    if (name === "path") shorten(cell);
  }
  row.dataset.status = entry.status[0];
  return row;
}

// shorten gives a long id in a path little room. It stays there for copying.
function shorten(cell) {
  const path = cell.textContent;
  const [id] = path.match(/[0-9a-f]{64}/) ?? [];
  if (!id) return;
  const [before, after] = path.split(id);
  cell.replaceChildren(before, element("span", "long", id), after);
  cell.title = path;
}

// tellNews says what has become of invocations, for who does not see it.
function tellNews(invocations) {
  if (!shown) return;
  const before = new Map((shown.invocations ?? []).map((i) => [i.id, i.progress]));
  const changed = invocations.filter((i) => before.get(i.id) !== i.progress);
  if (changed.length === 0) return;
  const [first] = changed;
  const others = changed.length > 1 ? ` And ${changed.length - 1} others changed.` : "";
  setText($("news"), `${first.tool} ${first.id.slice(0, 8)}: ${first.sentence}${others}`);
}

// --- following the Hub ---

let source;
let again;

function follow() {
  clearTimeout(again);
  source?.close();
  source = new EventSource("/mockhub/events");
  source.onmessage = (event) => {
    connected(true);
    show(JSON.parse(event.data));
  };
  source.onerror = () => {
    connected(false);
    if (source.readyState === EventSource.CLOSED) again = setTimeout(follow, 1000);
  };
}

function connected(yes) {
  document.body.classList.toggle("stale", !yes);
  setText($("connection"), yes ? "Following the Hub" : "The mock Hub does not answer. What you see is what was.");
}

// A page that nobody sees follows nothing: browsers keep few connections.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(again);
    source?.close();
  } else {
    follow();
  }
});
follow();

// --- pressing buttons ---

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button || button.getAttribute("aria-busy") === "true") return;
  const on = button.dataset.do === "submit" ? $("as").value : button.dataset.on ?? "";
  button.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(`/mockhub/do/${button.dataset.do}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ on, value: button.dataset.value ?? "" }),
    });
    say((await response.json()).said, response.ok);
  } catch {
    say("The mock Hub does not answer.", false);
  } finally {
    button.removeAttribute("aria-busy");
  }
});

function say(text, good) {
  const said = $("said");
  said.dataset.good = good;
  // The same sentence twice is said twice.
  said.replaceChildren(element("span", "", text));
}
