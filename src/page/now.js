/* What is counted now, and in the last hour. */

import {ask} from "./client.js";
import {
  addChart, canvasOf, card, chartOptions, colour, count, drawCharts, duration, element, legend, list, percent,
  section, table,
} from "./parts.js";

const RANGES = [[60, "1 minute"], [120, "2 minutes"], [600, "10 minutes"], [3600, "1 hour"]];
const VERDICTS = [
  ["denied", "denied"], ["undecided", "undecided"], ["allowed", "allowed"], ["unlimited", "unlimited"],
];
/* The places of what /v1/live has as lists. */
const VALUES = ["unlimited", "allowed", "denied", "undecided", "unknown", "server_errors",
  "request_us", "decisions", "decision_us", "connections"];
const OF_ROUTE = {requests: 0, denied: 1, errors: 2, ms: 3};
const OF_LIMIT = {allowed: 0, denied: 1, wouldDeny: 2};
const FINE_STEPS = 120;
const COARSE_STEPS = 360;
const SERVERS_EVERY_MS = 2000;
const CERTIFICATES_EVERY_MS = 60000;
const ROUND_TRIP_LINES = 10; /* seconds of which it is the mean */
const RELOADS_SHOWN = 5;
const CHANGES_SHOWN = 12; /* of a reload */

/* Show @made, a table, in @place, under @title if it has one. A table that is there gets other rows: what the reader has
 * scrolled to, and the focus, stay. */
function redraw(place, made, title = "") {
  const before = place.querySelector(".wide");
  if (before !== null && made.className === before.className) {
    before.replaceChildren(...made.childNodes);
  } else {
    place.replaceChildren(title === "" ? made : section(title, made));
  }
}

const clock = new Intl.DateTimeFormat(undefined, {timeStyle: "medium"});
const moment = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "medium"});

/* --- a history of steps, as the process keeps it, which goes on with each line --- */

/* A step: {values: {NAME: n}, latency: [], routes: Map(NAME → []), limits: Map(NAME → [])}. The name
 * of all others is null. */
function ringOf(answer, nMax) {
  const n = answer.denied.length;
  const ring = {stepS: answer.step_s, nMax, end: Date.parse(answer.end), steps: []};
  for (let i = 0; i < n; i++) {
    const linesAt = (lines) => new Map(lines.map(({name, steps}) => [name ?? null, steps[i]]));
    ring.steps.push({
      values: Object.fromEntries(VALUES.map((name) => [name, answer[name][i]])),
      latency: answer.latency[i],
      routes: linesAt(answer.routes),
      limits: linesAt(answer.limits),
    });
  }
  return ring;
}

/* The step that a line has. */
function stepOf({step}) {
  const lines = (list) => new Map(list.map(([name, ...numbers]) => [name, numbers]));
  return {
    values: Object.fromEntries(VALUES.map((name, i) => [name, step.values[i]])),
    latency: step.latency,
    routes: lines(step.routes),
    limits: lines(step.limits),
  };
}

function addNumbers(sum, numbers) {
  numbers?.forEach((n, i) => { sum[i] = (sum[i] ?? 0) + n; });
  return sum;
}

/* The sum of steps as one. */
function sumOf(steps) {
  const sum = {
    values: Object.fromEntries(VALUES.map((name) => [name, 0])), latency: [], routes: new Map(),
    limits: new Map(),
  };
  for (const step of steps) {
    VALUES.forEach((name) => { sum.values[name] += step.values[name]; });
    addNumbers(sum.latency, step.latency);
    for (const name of ["routes", "limits"]) {
      for (const [key, numbers] of step[name]) {
        sum[name].set(key, addNumbers(sum[name].get(key) ?? [], numbers));
      }
    }
  }
  sum.values.connections = steps.at(-1)?.values.connections ?? 0;
  return sum;
}

/* The time within which a @share of requests ended, by the bounds of the buckets; us. */
function quantile(latency, edges, share) {
  const all = latency?.reduce((sum, n) => sum + n, 0) ?? 0;
  if (all === 0) {
    return null;
  }
  let left = all * share;
  for (let i = 0; i < latency.length; i++) {
    const from = i === 0 ? 0 : edges[i - 1];
    const to = edges[i] ?? edges.at(-1);
    if (latency[i] >= left) {
      return from + (to - from) * (latency[i] > 0 ? left / latency[i] : 0);
    }
    left -= latency[i];
  }
  return edges.at(-1);
}

/* A change by a reload: of which key, and from what to what. */
function changeShown({key, change, from, to}) {
  const values = change === "changed" ? [element("code", "", from), " → ", element("code", "", to)]
    : change === "reordered" ? ["the order"] : [change, " ", element("code", "", from ?? to)];
  return element("span", "", element("code", "", key), ": ", ...values);
}

/* In three digits at most. */
function shownUs(us) {
  if (us === null) {
    return "–";
  }
  const [n, unit] = us < 1000 ? [us, "µs"] : us < 1e6 ? [us / 1000, "ms"] : [us / 1e6, "s"];
  return `${n < 10 && us >= 1000 ? Math.round(n * 10) / 10 : Math.round(n)}\u00a0${unit}`;
}

const perSecond = (n) => (n >= 100 ? count(Math.round(n)) : String(Math.round(n * 10) / 10));

/* --- the view --- */

export function nowView() {
  let edges = [];
  let fine = null;
  let coarse = null;
  let coarsePart = null; /* steps of the coarse step under way */
  let latest = null; /* line */
  let early = null; /* lines that came while the history is read; null: it is not */
  let nodesBefore = []; /* of Redis, of the lines before, the oldest first */
  let range = 120;
  let focus = null; /* {kind: "routes" | "limits", name}; null: all */
  let isShown = false;
  let timers = [];

  const cards = element("div", "cards");
  const focused = element("p", "quiet");
  const requests = canvasOf("Requests over time, by what became of them");
  const latency = canvasOf("Time that requests took, over time");
  const routes = element("div", "");
  const limits = element("div", "");
  const nodes = element("div", "");
  const facts = element("div", "");
  const store = section("Store, TLS and policy", nodes, facts);
  const servers = element("div", "");
  const certificates = element("div", "");
  const reloads = element("div", "");
  const choice = element("select", "");
  choice.id = "range";
  choice.append(...RANGES.map(([seconds, name]) => {
    const option = element("option", "", name);
    option.value = seconds;
    return option;
  }));
  choice.value = range;
  choice.addEventListener("change", () => {
    range = Number(choice.value);
    draw();
  });
  const label = element("label", "field", "The last ", choice);
  label.htmlFor = choice.id;
  const all = element("button", "", "All routes and limits");
  all.type = "button";
  all.hidden = true;
  all.addEventListener("click", () => setFocus(null));

  /* The steps that are shown, the oldest first, and how long each is. */
  function stepsShown() {
    if (fine === null) {
      return {steps: [], stepS: 1, end: Date.now()};
    }
    const ring = range <= FINE_STEPS ? fine : coarse;
    return {steps: ring.steps.slice(-Math.ceil(range / ring.stepS)), stepS: ring.stepS, end: ring.end};
  }

  const timeOf = (shown, i) => new Date(shown.end - (shown.steps.length - i) * shown.stepS * 1000);

  /* Series of the requests' chart: [name, colour, numbers]. */
  function requestSeries(steps) {
    if (focus === null) {
      return VERDICTS.map(([name, tone]) => [name, tone, steps.map((step) => step.values[name])]);
    }
    const at = (step, place) => step[focus.kind].get(focus.name)?.[place] ?? 0;
    if (focus.kind === "routes") {
      return [
        ["denied", "denied", steps.map((step) => at(step, OF_ROUTE.denied))],
        ["other", "allowed", steps.map((step) => at(step, OF_ROUTE.requests) - at(step, OF_ROUTE.denied))],
      ];
    }
    return [
      ["denied", "denied", steps.map((step) => at(step, OF_LIMIT.denied))],
      ["would deny", "shadow", steps.map((step) => at(step, OF_LIMIT.wouldDeny))],
      ["allowed", "allowed", steps.map((step) => at(step, OF_LIMIT.allowed))],
    ];
  }

  function latencySeries(steps) {
    if (focus?.kind === "routes") {
      return [["mean", "both", steps.map((step) => {
        const numbers = step.routes.get(focus.name);
        return numbers?.[OF_ROUTE.requests] > 0
          ? (numbers[OF_ROUTE.ms] * 1000) / numbers[OF_ROUTE.requests] : null;
      })]];
    }
    return [["99 %", "denied", 0.99], ["median", "fewer", 0.5]].map(([name, tone, share]) =>
      [name, tone, steps.map((step) => quantile(step.latency, edges, share))]);
  }

  function chartOf(canvas, type, seriesOf, value) {
    const shown = stepsShown();
    const series = seriesOf(shown.steps);
    return new Chart(canvas, {
      type,
      data: {labels: shown.steps.map((_, i) => clock.format(timeOf(shown, i))), datasets: series.map(datasetOf(type))},
      options: chartOptions({
        stacked: type === "bar", tick: (text) => text, title: (text) => text, value,
      }),
    });
  }

  function datasetOf(type) {
    return ([name, tone, data]) => (type === "bar"
      ? {label: name, data, backgroundColor: colour(tone), categoryPercentage: 1, barPercentage: 0.92}
      : {label: name, data, borderColor: colour(tone), backgroundColor: colour(tone), borderWidth: 2,
        borderDash: name === "median" ? [5, 3] : [], pointRadius: 1.5, pointHitRadius: 8, spanGaps: true});
  }

  const requestLegend = element("div", "");
  const latencyLegend = element("div", "");
  const requestChart = addChart(() => chartOf(requests, "bar", requestSeries, count));
  const latencyChart = addChart(() => chartOf(latency, "line", latencySeries, shownUs));

  function updateChart(drawn, type, seriesOf) {
    const shown = stepsShown();
    drawn.data.labels = shown.steps.map((_, i) => clock.format(timeOf(shown, i)));
    drawn.data.datasets = seriesOf(shown.steps).map(datasetOf(type));
    drawn.update("none");
  }

  function setFocus(next) {
    focus = next;
    draw();
  }

  function nameButton(kind, name) {
    const made = element("button", "name", name ?? "others");
    made.type = "button";
    const isFocused = focus?.kind === kind && focus.name === name;
    made.setAttribute("aria-pressed", String(isFocused));
    made.addEventListener("click", () => setFocus(isFocused ? null : {kind, name}));
    return made;
  }

  /* Rows by name with the numbers of the range, of the last second and since the start. */
  function rowsOf(kind, sum) {
    const last = fine.steps.at(-1);
    return latest[kind].map(([name, ...total]) => ({
      name, total, sum: sum[kind].get(name) ?? [], now: last?.[kind].get(name) ?? [],
    })).filter((row) => row.total.some((n) => n > 0))
      .sort((a, b) => (a.name === null) - (b.name === null) || (b.sum[0] ?? 0) - (a.sum[0] ?? 0));
  }

  const number = (row, place) => count(row.sum[place] ?? 0);

  /* A cell with a number since the start, which a test can find. */
  function total(kind, row, place, name) {
    const made = element("span", "", count(row.total[place]));
    made.dataset.total = `${kind} ${row.name ?? ""} ${name}`;
    return made;
  }

  function routeTable(sum) {
    return table([
      ["route", "", (row) => nameButton("routes", row.name)],
      ["now /s", "number", (row) => perSecond(row.now[OF_ROUTE.requests] ?? 0)],
      ["requests", "number", (row) => number(row, OF_ROUTE.requests)],
      ["denied", "number", (row) => number(row, OF_ROUTE.denied)],
      ["share", "number", (row) => percent(row.sum[OF_ROUTE.denied] ?? 0, row.sum[OF_ROUTE.requests] ?? 0)],
      ["5xx", "number", (row) => number(row, OF_ROUTE.errors)],
      ["mean time", "number", (row) => (row.sum[OF_ROUTE.requests] > 0
        ? shownUs((row.sum[OF_ROUTE.ms] * 1000) / row.sum[OF_ROUTE.requests]) : "–")],
      ["since start", "number", (row) => total("route", row, OF_ROUTE.requests, "requests")],
      ["denied", "number", (row) => total("route", row, OF_ROUTE.denied, "denied")],
    ], rowsOf("routes", sum), "Routes");
  }

  function limitTable(sum) {
    return table([
      ["limit", "", (row) => nameButton("limits", row.name)],
      ["now /s", "number", (row) => perSecond(row.now.reduce((all, n) => all + n, 0))],
      ["allowed", "number", (row) => number(row, OF_LIMIT.allowed)],
      ["denied", "number", (row) => number(row, OF_LIMIT.denied)],
      ["would deny", "number", (row) => number(row, OF_LIMIT.wouldDeny)],
      ["share", "number", (row) => percent((row.sum[OF_LIMIT.denied] ?? 0) + (row.sum[OF_LIMIT.wouldDeny] ?? 0),
        row.sum.reduce((all, n) => all + n, 0))],
      ["allowed since start", "number", (row) => total("limit", row, OF_LIMIT.allowed, "allowed")],
      ["denied", "number", (row) => total("limit", row, OF_LIMIT.denied, "denied")],
    ], rowsOf("limits", sum), "Limits");
  }

  function drawCards() {
    const last = fine.steps.at(-1)?.values ?? latest.values;
    const n = last.unlimited + last.allowed + last.denied + last.undecided + last.unknown;
    const recent = sumOf(fine.steps.slice(-10));
    const totals = Object.fromEntries(VALUES.map((name, i) => [name, latest.values[i]]));
    const allTotal = totals.unlimited + totals.allowed + totals.denied + totals.undecided + totals.unknown;
    const since = element("span", "", count(allTotal));
    since.dataset.total = "all requests";
    cards.replaceChildren(
      card("", count(n || 0), "requests in the last second"),
      card(last.denied > 0 ? "denied" : "", count(last.denied || 0), "denied", n > 0 ? percent(last.denied, n) : ""),
      card(last.server_errors > 0 ? "bad" : "", count(last.server_errors || 0), "answered with 5xx"),
      card("", shownUs(quantile(recent.latency, edges, 0.5)), "median time, 10 s"),
      card("", shownUs(quantile(recent.latency, edges, 0.99)), "99 % within, 10 s"),
      card("", count(totals.connections), "open connections"),
      card("", since, `requests in ${duration(Math.max(1, latest.uptime_s) * 1e6)}, since the start`),
      card(totals.denied > 0 ? "denied" : "", count(totals.denied), "of them denied", percent(totals.denied, allTotal)));
  }

  /* The servers of Redis. */
  function nodeTable(rows) {
    const bad = (isBad, text) => element("span", isBad ? "bad" : "good", text);
    return table([
      ["Redis", "", (row) => element("code", "", row.name ?? "others")],
      ["connections up", "number", (row) =>
        bad(row.links_up < row.links, `${count(row.links_up)} of ${count(row.links)}`)],
      ["breaker", "", (row) => (row.links_up === 0 ? "–" : bad(row.breakers_open > 0,
        row.breakers_open === 0 ? "closed" : `open at ${count(row.breakers_open)} of ${count(row.links_up)}`))],
      ["calls", "number", (row) => count(row.calls)],
      ["decisions failed", "number", (row) => count(row.failures)],
      ["round trip", "number", (row) => shownUs(roundTripOf(row))],
    ], rows, "Redis");
  }

  /* The mean of the last seconds; of those before where there is none; null: none was measured. */
  function roundTripOf(node) {
    const before = nodesBefore.map((nodes) => nodes.find(({name}) => name === node.name))
      .find((one) => one !== undefined && one.round_trips < node.round_trips);
    const n = node.round_trips - (before?.round_trips ?? 0);
    return n > 0 ? (node.round_trip_us - (before?.round_trip_us ?? 0)) / n : null;
  }

  function drawStore() {
    const {redis, tls, store: state} = latest;
    const last = fine.steps.at(-1)?.values;
    const by = Object.entries(redis.decisions_by).filter(([, n]) => n > 0)
      .map(([name, n]) => `${name} ${count(n)}`);
    const isRedis = state.kind === "redis";
    redraw(nodes, isRedis ? nodeTable(redis.nodes) : element("div", ""));
    facts.replaceChildren(list(
      isRedis ? `Redis: ${state.state}` +
        (last?.decisions > 0 ? `; a decision takes ${shownUs(last.decision_us / last.decisions)} on average.` : ".")
        : "The store is in the process.",
      `Who decided since the start: ${by.length > 0 ? by.join(", ") : "nothing was decided yet"}.`,
      `TLS handshakes: ${count(tls.full)} full, ${count(tls.resumed)} resumed, ${count(tls.failed)} failed.`,
      `Policy: generation ${count(latest.generation)}, loaded ${moment.format(new Date(latest.loaded))}` +
        (latest.last_reload_failed ? "; the latest reload failed." : ".")));
  }

  function draw() {
    if (!isShown || latest === null || fine === null) {
      return;
    }
    const shown = stepsShown();
    const sum = sumOf(shown.steps);
    drawCards();
    const name = focus === null ? "" : focus.name ?? "others";
    focused.textContent = focus === null ? ""
      : `Of the ${focus.kind === "routes" ? "route" : "limit"} ${name} alone.`;
    all.hidden = focus === null;
    const held = document.activeElement;
    const heldIn = [routes, limits].find((place) => place.contains(held) && held.className === "name");
    requestLegend.replaceChildren(legend(requestSeries([])));
    latencyLegend.replaceChildren(legend(latencySeries([])));
    if (requestChart() === null) {
      drawCharts();
    } else {
      updateChart(requestChart(), "bar", requestSeries);
      updateChart(latencyChart(), "line", latencySeries);
    }
    redraw(routes, routeTable(sum));
    redraw(limits, limitTable(sum));
    drawStore();
    if (heldIn !== undefined) { /* who had the focus keeps it */
      [...heldIn.querySelectorAll(".name")]
        .find((button) => button.textContent === held.textContent)?.focus({preventScroll: true});
    }
  }

  /* --- what is asked for from time to time --- */

  async function drawServers() {
    const {upstreams} = await ask("/v1/upstreams");
    const rows = upstreams.flatMap((upstream) =>
      upstream.servers.map((server) => ({upstream: upstream.name, waiting: upstream.waiting, ...server})));
    redraw(servers, rows.length === 0
      ? element("p", "quiet", "The policy has none.")
      : table([
        ["upstream", "", (row) => row.upstream],
        ["server", "", (row) => element("code", "", row.url)],
        ["HTTP", "", (row) => row.protocol],
        ["state", "", (row) => element("span", row.state === "up" ? "good" : "bad", row.state)],
        ["requests", "number", (row) => (row.requests === undefined ? "–" : count(row.requests))],
        ["connections", "number", (row) => (row.connections === undefined ? "–" : count(row.connections))],
        ["waiting", "number", (row) => (row.waiting === undefined ? "–" : count(row.waiting))],
      ], rows, "Upstreams"), "Upstreams");
  }

  async function drawCertificates() {
    const {certificates: shown} = await ask("/v1/certificates");
    certificates.replaceChildren(shown.length === 0 ? "" : section("Certificates", table([
      ["listener", "", (row) => row.listener],
      ["names", "", (row) => row.names.join(", ")],
      ["days left", "number", (row) => element("span", row.days_left < 15 ? "bad" : "good", count(row.days_left))],
      ["until", "", (row) => moment.format(new Date(row.not_after))],
      ["file", "", (row) => element("code", "", row.file)],
    ], shown, "Certificates")));
  }

  async function drawReload() {
    const reload = await ask("/v1/reload");
    reloads.replaceChildren(section("Reloads", element("p", "",
      `${count(reload.successes)} of ${count(reload.attempts)} reloads since the start put another policy in force.`),
    ...(reload.messages?.length > 0 ? [element("p", "", "The latest said:"), list(...reload.messages)] : []),
    ...reload.reloads.slice(0, RELOADS_SHOWN).flatMap(reloadShown)));
  }

  /* A reload with what it has changed. */
  function reloadShown({ended, because, succeeded, generation, changes, more_changes: more}) {
    const rest = changes.length + more - CHANGES_SHOWN;
    const items = changes.slice(0, CHANGES_SHOWN).map(changeShown);
    return [
      element("h3", "", `${moment.format(new Date(ended))} (${because}): ` +
        (succeeded ? `generation ${count(generation)}` : "failed, and the policy stayed as it was")),
      items.length > 0 ? list(...items, ...(rest > 0 ? [`and ${count(rest)} more`] : []))
        : element("p", "quiet", succeeded ? "Nothing of the policy has changed, but perhaps secrets." : ""),
    ];
  }

  /* What cannot be had is left as it was: the connection is told of elsewhere. */
  const quietly = (what) => () => what().catch(() => {});

  function begin() {
    end();
    timers = [
      setInterval(quietly(drawServers), SERVERS_EVERY_MS),
      setInterval(quietly(drawCertificates), CERTIFICATES_EVERY_MS),
    ];
    [drawServers, drawCertificates, drawReload].forEach((what) => quietly(what)());
  }

  function end() {
    timers.forEach(clearInterval);
    timers = [];
  }

  /* --- steps --- */

  function push(ring, step, end) {
    ring.steps.push(step);
    ring.end = end;
    if (ring.steps.length > ring.nMax) {
      ring.steps.shift();
    }
  }

  function take(line) {
    const time = Date.parse(line.time);
    if (early !== null) {
      early.push(line);
      return;
    }
    if (line.second < latest.second) { /* it waited while the history was read, which has its step */
      return;
    }
    nodesBefore = [...nodesBefore, latest.redis.nodes].slice(-ROUND_TRIP_LINES);
    if (line.second > latest.second + 1) { /* lines did not come: the process has their steps */
      early = [];
      quietly(readHistory)().finally(() => {
        const lines = early.filter(({second}) => second > latest.second);
        early = null;
        lines.forEach(take);
      });
      return;
    }
    if (line.second === latest.second + 1 && line.step !== null) {
      const step = stepOf(line);
      push(fine, step, time);
      coarsePart.push(step);
      if (coarsePart.length >= coarse.stepS) {
        push(coarse, sumOf(coarsePart), time);
        coarsePart = [];
      }
    }
    if (latest.reloads !== line.reloads && isShown) {
      quietly(drawReload)();
    }
    latest = line;
  }

  async function readHistory() {
    const answer = await ask("/v1/history");
    edges = answer.latency_edges_us;
    fine = ringOf(answer.fine, FINE_STEPS);
    coarse = ringOf(answer.coarse, COARSE_STEPS);
    coarsePart = fine.steps.slice(fine.steps.length - Math.round((fine.end - coarse.end) / 1000))
      .slice(1 - coarse.stepS);
    latest = answer.now;
    nodesBefore = [];
    draw();
  }

  return {
    elements: [
      element("div", "row", label, all), cards, focused,
      element("section", "", element("h2", "", "Requests"), requestLegend, element("div", "chart", requests)),
      element("section", "", element("h2", "", "Time that requests take"), latencyLegend,
        element("div", "chart low", latency)),
      section("Routes", routes), section("Limits", limits), store, servers, certificates, reloads,
    ],
    async onOpen() {
      await readHistory();
      if (isShown) {
        begin();
      }
    },
    onLine(line) {
      take(line);
      draw();
    },
    onLost: end,
    show() {
      isShown = true;
      draw();
      begin();
    },
    hide() {
      isShown = false;
      end();
    },
  };
}
