/* Who is limited: the keys that are denied most, one key in all limits, and what may be done. */

import {ask, askEach} from "./client.js";
import {
  button, count, duration, element, field, list, percent, section, selectOf, table,
} from "./parts.js";

const TOP = 20;
const TOP_EVERY_MS = 2000;
const WITHIN = ["1m", "10m", "1h"];

const moment = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "medium"});
const shownTime = (text) => moment.format(new Date(text));
const shownMs = (ms) => (ms === null || ms === undefined ? "–" : duration(ms * 1000));

/* The names of the parts that a key is written with: ["client.ip"] of client.ip=192.0.2.1, and
 * ["header#"] of a value that is shown by its hash. An address alone is client.ip. */
function partsOf(text) {
  if (!text.includes("=") && !text.includes("#")) {
    return /^[0-9a-f]{32}$/i.test(text) ? null : ["client.ip"]; /* a hash fits any */
  }
  return text.split(",").map((part) => part.match(/^[^=#]*[#]?/)[0]);
}

/* Whether a key of @rule may be written as @text: others are not asked for it. */
function fits(rule, text) {
  const parts = partsOf(text);
  if (parts === null) {
    return true;
  }
  return parts.length === rule.key.length && parts.every((part, i) => rule.key[i].split(" | ").some((one) => {
    const name = one.replace(/\/\d+$/, "");
    return part.endsWith("#") ? name.startsWith(part.slice(0, -1)) : name === part;
  }));
}

export function whoView(page) {
  let limits = []; /* of /v1/limits */
  let reading = null; /* a promise: they are those in force; null: they have to be asked for */
  let timer = null;
  let isShown = false;
  let shownKey = null; /* that is looked up */
  let nLookUps = 0;

  const top = element("div", "");
  const topProblem = element("div", "");
  const result = element("div", "");
  const bans = element("div", "");
  const said = element("div", "");
  said.setAttribute("role", "status");
  const limit = element("select", "");
  const within = selectOf(WITHIN);
  within.value = "10m";
  const key = element("input", "code");
  key.placeholder = "198.51.100.7 or header.x-api-key=…";
  key.autocomplete = "off";
  key.spellcheck = false;
  const search = element("form", "", field("who-key", "Client or key", key, "grow"));
  search.append(element("button", "", "Look up"));
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    lookUp(key.value.trim());
  });
  [limit, within].forEach((input) => input.addEventListener("change", () => drawTop()));

  const pathOf = (limitName, keyText) =>
    `/v1/limits/${encodeURIComponent(limitName)}/keys/${encodeURIComponent(keyText)}`;

  /* --- who is denied most --- */

  /* The limit of a rate: per-key of per-key.1d. */
  const ruleOf = (name) => limits.find((rule) => rule.rates.some((rate) => rate.name === name))?.name ?? name;

  async function waitOf(row) {
    try {
      const state = await ask(pathOf(ruleOf(row.limit), row.key));
      const rate = state.rates?.find((one) => one.name === row.limit);
      return {wait: rate ? rate.retry_after_ms : null, ban: state.ban, plan: state.plan};
    } catch {
      return {};
    }
  }

  async function drawTop() {
    if (!isShown) {
      return;
    }
    const query = new URLSearchParams({n: TOP, within: within.value});
    if (limit.value) {
      query.set("limit", limit.value);
    }
    let rows;
    try {
      await readLimits();
      ({top: rows} = await ask(`/v1/top?${query}`));
    } catch (problem) {
      topProblem.replaceChildren(element("p", "problem", problem.message));
      return;
    }
    const states = await askEach(rows, waitOf);
    rows.forEach((row, i) => Object.assign(row, states[i]));
    const held = document.activeElement?.dataset?.key;
    topProblem.replaceChildren();
    top.replaceChildren(rows.length === 0
      ? element("p", "quiet", `No key was denied within ${within.value}, as far as this process has seen.`)
      : table([
        ["key", "", (row) => {
          const made = button(row.key + (row.key_is_cut ? "…" : ""), () => {
            key.value = row.key;
            lookUp(row.key, row.limit);
          });
          made.className = "name code";
          made.dataset.key = `${row.limit} ${row.key}`;
          return made;
        }],
        ["limit", "", (row) => row.limit],
        ["denied", "number", (row) => count(row.denied)],
        ["allowed", "number", (row) => count(row.allowed)],
        ["share", "number", (row) => percent(row.denied, row.denied + row.allowed)],
        ["wait", "number", (row) => (row.ban ? row.ban.kind : shownMs(row.wait))],
        ["plan", "", (row) => row.plan?.name ?? row.plan ?? ""],
        ["last denied", "", (row) => shownTime(row.last_denied)],
      ], rows, "Keys that are denied most"));
    if (held) {
      [...top.querySelectorAll("[data-key]")].find((one) => one.dataset.key === held)?.focus({preventScroll: true});
    }
  }

  /* --- one key --- */

  const input = (value, placeholder) => {
    const made = element("input", "");
    made.value = value;
    made.placeholder = placeholder || "";
    return made;
  };

  async function change(path, method, body, done) {
    const answer = await page.tell(said, ask(path, {method, body}), done);
    if (answer !== null) {
      drawBans();
      if (shownKey !== null) {
        lookUp(shownKey);
      }
    }
  }

  async function ban(rule, text, word) {
    const time = input("10m", "10m, 1d");
    const reason = input("", "why");
    const title = word === "ban" ? `Refuse ${text} in ${rule}?` : `Let ${text} pass ${rule}?`;
    if (await page.confirm(title, word === "ban" ? "Ban" : "Exempt",
      field("ask-for", "For", time), field("ask-reason", "Reason", reason))) {
      await change(`${pathOf(rule, text)}/${word}`, "POST",
        {for: time.value.trim(), ...(reason.value.trim() ? {reason: reason.value.trim()} : {})},
        (answer) => `${word === "ban" ? "Refused" : "Exempt"} until ${shownTime(answer.until)}.` +
          (answer.enforced === false ? " The limit is a shadow: it refuses nobody." : ""));
    }
  }

  async function lift(rule, text, word) {
    if (await page.confirm(`Lift the ${word === "ban" ? "ban" : "exemption"} of ${text} in ${rule}?`, "Lift")) {
      await change(`${pathOf(rule, text)}/${word}`, "DELETE", undefined, () => "Lifted.");
    }
  }

  async function reset(rule, text) {
    if (await page.confirm(`Forget what was counted of ${text} in ${rule}?`, "Reset")) {
      await change(pathOf(rule, text), "DELETE", undefined, () => "What was counted is forgotten.");
    }
  }

  async function setPlan(rule, text) {
    const plan = input(rule.plans[0], "or a rate, such as 200/minute");
    const names = element("datalist", "", ...rule.plans.map((name) => element("option", "", name)));
    names.id = "ask-plans";
    plan.setAttribute("list", names.id);
    const time = input("", "30d; empty: for good");
    if (await page.confirm(`Give ${text} a plan, in all limits with this key?`, "Set plan",
      field("ask-plan", "Plan", plan), names, field("ask-plan-for", "For", time))) {
      await change("/v1/tenants", "POST",
        {key: text, plan: plan.value, ...(time.value.trim() ? {for: time.value.trim()} : {})},
        (answer) => `The plan is ${answer.plan}.`);
    }
  }

  async function unsetPlan(text) {
    if (await page.confirm(`Take its plan from ${text}?`, "Take it")) {
      await change(`/v1/tenants/${encodeURIComponent(text)}`, "DELETE", undefined, () => "It has no plan any more.");
    }
  }


  function actionsOf({rule, state}) {
    const text = state.key ?? shownKey;
    if (!page.mayChange) {
      return "";
    }
    const made = [];
    if (state.ban) {
      made.push(button("Lift", () => lift(rule.name, text, state.ban.kind)));
    } else {
      made.push(button("Ban …", () => ban(rule.name, text, "ban")),
        button("Exempt …", () => ban(rule.name, text, "exempt")));
    }
    made.push(button("Reset", () => reset(rule.name, text)));
    if (rule.has_tenants) {
      made.push(button("Plan …", () => setPlan(rule, text)), button("No plan", () => unsetPlan(text)));
    }
    return element("span", "actions", ...made);
  }

  const stateOf = ({state}) => {
    if (state.ban) {
      return element("span", state.ban.kind === "ban" ? "bad" : "good",
        `${state.ban.kind === "ban" ? "banned" : "exempt"} until ${shownTime(state.ban.until)}`);
    }
    return element("span", state.allowed ? "good" : "bad", state.allowed ? "would pass" : "would be denied");
  };

  const rateOf = (shown) => ({state}) => element("span", "", ...(state.rates ?? []).flatMap((rate, i) =>
    [...(i > 0 ? [element("br", "")] : []), shown(rate)]));

  /* The state of @text in each limit that has such a key. */
  async function lookUp(text, name) {
    if (text === "") {
      return;
    }
    const number = ++nLookUps;
    shownKey = text;
    try {
      await readLimits();
    } catch (problem) {
      if (number === nLookUps) {
        result.replaceChildren(element("p", "problem", problem.message));
      }
      return;
    }
    const fitting = limits.filter((rule) => fits(rule, text));
    const wanted = name && !fitting.length ? limits.filter((rule) => rule.name === ruleOf(name)) : fitting;
    const found = await askEach(wanted, async (rule) => {
      try {
        return {rule, state: await ask(pathOf(rule.name, text))};
      } catch (problem) {
        return {rule, problem};
      }
    });
    const rows = found.filter(({state}) => state);
    const problems = found.filter(({problem}) => problem);
    const denied = await lastDenied(new Set([text, ...rows.map(({state}) => state.key)]));
    if (number !== nLookUps) {
      return; /* another one was asked for meanwhile */
    }
    result.replaceChildren(section(["State of ", element("code", "", text)],
      rows.length === 0 ? element("p", "problem", problems[0]?.problem.message ?? "No limit has such keys.")
        : table([
          ["limit", "", ({rule}) => rule.name],
          ["state", "", stateOf],
          ["rate", "", rateOf((rate) => rate.name)],
          ["remaining", "number", rateOf((rate) => `${count(rate.remaining)} of ${count(rate.limit)}`)],
          ["wait", "number", rateOf((rate) => shownMs(rate.allowed ? 0 : rate.retry_after_ms))],
          ["full again in", "number", rateOf((rate) => shownMs(rate.reset_after_ms))],
          ["plan", "", ({state}) => state.plan?.name ?? state.plan ?? ""],
          ["decided by", "", ({state}) => state.source ?? ""],
          ["", "", actionsOf],
        ], rows, `State of ${text}`),
      rows.length > 0 && problems.length > 0
        ? element("p", "problem", problems.map(({rule, problem}) => `${rule.name}: ${problem.message}`).join("\n")) : "",
      denied.length === 0 ? element("p", "quiet", "It was not denied within the hour, as far as this process has seen.")
        : list(...denied.map((row) => `Denied last by ${row.limit} at ${shownTime(row.last_denied)}; ` +
          `${count(row.denied)} times within the hour.`)),
      page.mayChange ? "" : element("p", "quiet", "To change something, give a token that may.")));
  }

  /* Lines of the keys denied most that are one of @texts, or have it as a part. */
  async function lastDenied(texts) {
    try {
      const {top: rows} = await ask("/v1/top?n=1000&within=1h");
      return rows.filter((row) => texts.has(row.key) || row.key.split(",").some((part) =>
        texts.has(part) || texts.has(part.slice(part.indexOf("=") + 1))));
    } catch {
      return [];
    }
  }

  /* --- bans --- */

  async function drawBans() {
    let answer;
    try {
      answer = await ask("/v1/bans");
    } catch (problem) {
      bans.replaceChildren(element("p", "problem", problem.message));
      return;
    }
    bans.replaceChildren(section("Bans and exemptions", answer.bans.length === 0
      ? element("p", "quiet", "There are none.")
      : table([
        ["key", "", (row) => element("code", "", row.key ?? row.hash)],
        ["limit", "", (row) => row.limit],
        ["", "", (row) => (row.kind === "ban" ? "banned" : "exempt")],
        ["until", "", (row) => shownTime(row.until)],
        ["left", "number", (row) => shownMs(row.left_ms)],
        ["why", "", (row) => row.reason || ""],
        ["by", "", (row) => row.by],
        ["", "", (row) => (page.mayChange
          ? element("span", "actions", button("Lift", () => lift(row.limit, row.key ?? row.hash, row.kind))) : "")],
      ], answer.bans.slice(0, 200), "Bans and exemptions"),
    answer.bans.length > 200 ? element("p", "quiet", `${count(answer.bans.length - 200)} more are not shown.`) : ""));
  }

  async function drawLimits() {
    ({limits} = await ask("/v1/limits"));
    const chosen = limit.value;
    const option = (value, text) => {
      const made = element("option", "", text);
      made.value = value;
      return made;
    };
    limit.replaceChildren(option("", "all limits"), ...limits.map((rule) => option(rule.name, rule.name)));
    limit.value = limits.some((rule) => rule.name === chosen) ? chosen : "";
  }

  /* Wait until the limits are known: without them no key fits. Throws a Problem. */
  function readLimits() {
    reading ??= drawLimits().catch((problem) => {
      reading = null;
      throw problem;
    });
    return reading;
  }

  /* The next one begins when this one has ended: a slow store is not asked more often. */
  function again() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (!document.hidden) {
        await drawTop();
      }
      if (isShown) {
        again();
      }
    }, TOP_EVERY_MS);
  }

  let generation = null;

  return {
    elements: [
      section("Denied most", element("div", "row", field("who-limit", "Limit", limit),
        field("who-within", "Within the last", within)), topProblem, top),
      section("A client or a key", search, said, result), bans,
    ],
    async onOpen() {
      generation = null;
    },
    onLine(line) {
      if (line.generation !== generation) {
        reading = generation === null ? reading : null;
        generation = line.generation;
        readLimits().then(drawTop, () => { generation = null; });
      }
    },
    onAccess() {
      reading = null; /* the stream begins anew: the policy may be another */
      if (isShown) {
        drawBans();
        if (shownKey !== null) {
          lookUp(shownKey);
        }
      }
    },
    show() {
      isShown = true;
      drawTop();
      drawBans();
      again();
    },
    hide() {
      isShown = false;
      clearTimeout(timer);
    },
  };
}
