/* The page of the admin API: its views, the token, and what all views share. */

import {ask, live, reconnect, token, whenRefused} from "./client.js";
import {element} from "./parts.js";
import {nowView} from "./now.js";
import {policyView} from "./policy.js";
import {whatIfView} from "./whatif.js";
import {whoView} from "./who.js";
import {whyView} from "./why.js";

const byId = (id) => document.getElementById(id);

/* Tell the latest question of page.confirm() its answer, once. */
let answerAsked = () => {};

/* What views are given: whether things may be changed, and how to ask before they are. */
const page = {
  mayChange: false,
  access: null, /* of /v1/access; null: not known yet */

  /* Ask before something is done. @fields: elements for what is to be said. A promise of whether it
   * was agreed to. */
  confirm(title, verb, ...fields) {
    const dialog = byId("ask-dialog");
    answerAsked(); /* one that has been closed, of which its event is still to come */
    byId("ask-title").textContent = title;
    byId("ask-body").replaceChildren(...fields);
    byId("ask-do").textContent = verb;
    return new Promise((resolve) => {
      answerAsked = () => resolve(dialog.returnValue === "do");
      dialog.returnValue = "cancel";
      dialog.showModal();
    });
  },

  /* A sentence about the outcome of @promise, in @place. */
  async tell(place, promise, done) {
    place.replaceChildren();
    try {
      const answer = await promise;
      place.append(element("p", "done", done(answer)));
      return answer;
    } catch (problem) {
      place.append(element("p", "problem", problem.message));
      return null;
    }
  },
};

byId("ask-dialog").addEventListener("close", () => byId("ask-dialog").open || answerAsked());

document.body.classList.add("waiting"); /* nothing is shown before there is something to show */

const views = [
  ["now", nowView(page)], ["who", whoView(page)], ["why", whyView(page)],
  ["whatif", whatIfView(page)], ["policy", policyView(page)],
].map(([name, view]) => ({name, view, tab: byId(`tab-${name}`), panel: byId(`view-${name}`)}));

let shown = null;

/* --- tabs: WAI-ARIA's pattern, with the view in the address --- */

function show(name, hasFocus) {
  const wanted = views.find((view) => view.name === name) || views[0];
  if (wanted === shown) {
    return;
  }
  for (const view of views) {
    const isShown = view === wanted;
    view.tab.setAttribute("aria-selected", String(isShown));
    view.tab.tabIndex = isShown ? 0 : -1;
    view.panel.hidden = !isShown;
  }
  shown?.view.hide?.();
  shown = wanted;
  scrollTo(0, 0);
  if (hasFocus) {
    shown.tab.focus();
  }
  shown.view.show?.();
}

function onKey(event) {
  const at = views.findIndex((view) => view.tab === event.target);
  const next = {
    ArrowRight: (at + 1) % views.length, ArrowLeft: (at + views.length - 1) % views.length,
    Home: 0, End: views.length - 1,
  }[event.key];
  if (at >= 0 && next !== undefined) {
    event.preventDefault();
    location.hash = views[next].name;
    show(views[next].name, true);
  }
}

for (const {name, view, tab, panel} of views) {
  panel.append(...view.elements);
  tab.addEventListener("click", () => { location.hash = name; });
}
byId("tabs").addEventListener("keydown", onKey);
addEventListener("hashchange", () => show(location.hash.slice(1), false));

/* --- the token --- */

let isDeclined = false; /* who has closed the dialog is not asked at each retry */
let isAsked = false; /* until what it was closed with has been seen */

function showToken() {
  const dialog = byId("token-dialog");
  if (!isAsked) {
    isAsked = true;
    byId("token-text").value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
  }
}

byId("token").addEventListener("click", () => {
  isDeclined = false;
  showToken();
});
byId("token-dialog").addEventListener("close", () => {
  const {returnValue} = byId("token-dialog");
  isAsked = false;
  const text = byId("token-text").value.trim();
  byId("token-text").value = "";
  if (returnValue === "use" && text !== "") {
    token.set(text);
  } else if (returnValue === "forget") {
    token.forget();
  } else {
    isDeclined = true;
    return;
  }
  isDeclined = false;
  reconnect();
});
whenRefused(() => isDeclined || showToken());

async function readAccess() {
  page.access = await ask("/v1/access");
  page.mayChange = page.access.may_change;
  byId("token").textContent = token.get() ? (page.mayChange ? "Token: may change" : "Token: may read")
    : "Token …";
  document.body.classList.toggle("may-change", page.mayChange);
  views.forEach(({view}) => view.onAccess?.());
}

/* --- the connection --- */

function tellConnection(text, isBad) {
  const place = byId("connection");
  if (place.textContent !== text) {
    place.textContent = text; /* it is read out when it changes */
  }
  place.classList.toggle("bad", isBad);
}

const STATES = {ready: "ready", degraded: "degraded", unready: "unready", draining: "draining"};

async function onOpen() {
  await readAccess();
  for (const {view} of views) {
    await view.onOpen?.();
  }
  document.body.classList.remove("waiting");
}

function onLine(line) {
  const state = STATES[line.status] || line.status;
  tellConnection(line.reasons ? `${state}: ${line.reasons.join("; ")}` : state, line.status !== "ready");
  views.forEach(({view}) => view.onLine?.(line));
}

function onLost(problem) {
  document.body.classList.remove("waiting");
  const why = problem.status !== 401 ? problem.message
    : token.get() ? "the token is not right" : "a token is needed";
  tellConnection(`disconnected: ${why}`, true);
  views.forEach(({view}) => view.onLost?.());
}

show(location.hash.slice(1) || "now", false);
live(onOpen, onLine, onLost);
