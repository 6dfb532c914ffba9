/* The report of a replay: what policies would have said to the requests of logs. */

import {
  addChart, canvasOf, card, chartOptions, colour, count, deniedTable, drawCharts, duration,
  element, legend, list, percent, section, table,
} from "./parts.js";

const COLUMNS_MAX = 128;

/* Of a time of RFC 3339: 2026-11-20 08:00:00 */
const shownTime = (text) => text.slice(0, 19).replace("T", " ");

const microseconds = (text) =>
  Date.parse(`${text.slice(0, 19)}Z`) * 1000 + Number(text.slice(20, -1).padEnd(6, "0"));

/* Of "12 were late" and the like, those that there are. */
const told = (...pairs) => pairs.filter(([n]) => n > 0).map(([n, text]) => `${count(n)} ${text}`);

/* --- charts --- */

/* Sums of as many spans each, but for the last. */
function columnsOf(spans) {
  const each = Math.ceil(spans.length / COLUMNS_MAX);
  const columns = [];
  spans.forEach((span, i) => {
    if (i % each === 0) {
      columns.push({...span});
    } else {
      for (const name of Object.keys(span).filter((name) => name !== "from")) {
        columns.at(-1)[name] += span[name];
      }
    }
  });
  return {columns, each};
}

/* Series: [name, colour, what is shown of a column], stacked in their order. */
function chart(report, title, ...series) {
  const {columns, each} = columnsOf(report.over_time);
  const spanS = each * report.span_s;
  const tick = columns.length * spanS > 86400 ? [5, 16] : [11, 19];
  const canvas = canvasOf(title);
  addChart(() => new Chart(canvas, {
    type: "bar",
    data: {
      labels: columns.map((column) => shownTime(column.from)),
      datasets: series.map(([label, name, shown]) => ({
        label, data: columns.map(shown), backgroundColor: colour(name), categoryPercentage: 1,
        barPercentage: 0.92,
      })),
    },
    options: chartOptions({
      stacked: true, tick: (label) => label.slice(...tick), title: (label) => `${label} UTC`,
      value: count,
    }),
  }));
  return section(title, legend(series), element("div", "chart", canvas),
    element("p", "quiet", `Each column is ${duration(spanS * 1e6)}; times are UTC.`));
}

/* --- the parts of the report --- */

const cardOf = (kind, n, name, whole) =>
  card(n > 0 ? kind : "", count(n), name, whole > 0 ? percent(n, whole) : "");

function cards({log, policy, against, changes}) {
  const made = [cardOf("", log.requests, "requests"), cardOf("", log.clients, "clients")];
  if (against) {
    made.push(
      cardOf("", policy.denied, "denied by the first", log.requests),
      cardOf("", against.denied, "denied by the second", log.requests),
      cardOf("denied", changes.newly_denied, "newly denied", log.requests),
      cardOf("fewer", changes.newly_allowed, "newly allowed", log.requests));
  } else {
    made.push(
      cardOf("", policy.allowed, "allowed", log.requests),
      cardOf("denied", policy.denied, "denied", log.requests),
      ...[[policy.shadow, "denied by shadow limits alone"], [policy.held, "held"],
        [policy.no_route, "no route (404)"], [policy.refused, "refused (400)"],
        [policy.banned, "denied by a ban"], [policy.without_key, "denied without a key"], [policy.undecided, "undecided (503)"],
      ].filter(([n]) => n > 0).map(([n, name]) => cardOf("", n, name, log.requests)));
  }
  return element("div", "cards", ...made);
}

function clients({log}, rows, part, name, colour) {
  if (rows.length === 0) {
    return "";
  }
  const made = section(`Clients that are ${name} most`, deniedTable(
    "client", (row) => element("code", "", row.client), rows, {
      whole: "requests", wholeTitle: "requests", part, partTitle: name, colour: () => colour,
      last: part === "denied" && rows.some((row) => row.banned > 0)
        ? [["banned", "number", (row) => count(row.banned)]] : [],
      caption: `Clients that are ${name} most`,
    }));
  if (log.requests_of_other_clients > 0) {
    made.append(element("p", "quiet", `Clients beyond the first ${count(log.clients)} that came are ` +
      `not told apart: ${count(log.requests_of_other_clients)} requests.`));
  }
  return made;
}

function one(report) {
  const {policy} = report;
  const denied = ["denied", "denied", (column) => column.denied];
  const shadow = ["denied by shadow limits alone", "shadow", (column) => column.shadow];
  return [
    chart(report, "Requests over time", denied,
      ["allowed", "allowed", (column) => column.requests - column.denied]),
    policy.denied > 0 ? chart(report, "Denied over time", denied) : "",
    policy.shadow > 0 ? chart(report, "Shadows over time", shadow) : "",
    clients(report, report.clients, "denied", "denied", "denied"),
  ];
}

function two(report) {
  const {changes} = report;
  const denied = ["newly denied", "denied", (column) => column.newly_denied];
  const allowed = ["newly allowed", "fewer", (column) => column.newly_allowed];
  return [
    chart(report, "Requests over time",
      ["denied by both", "both", (column) => column.denied - column.newly_allowed], denied, allowed,
      ["allowed by both", "allowed", (column) => column.requests - column.denied - column.newly_denied]),
    changes.newly_denied + changes.newly_allowed > 0
      ? chart(report, "Changes over time", denied, allowed) : "",
    clients(report, changes.newly_denied_clients, "newly_denied", "newly denied", "denied"),
    clients(report, changes.newly_allowed_clients, "newly_allowed", "newly allowed", "fewer"),
  ];
}

function limitName(limit) {
  const made = element("span", "", limit.name);
  if (limit.shadow) {
    made.append(" ", element("span", "tag", "shadow"));
  }
  return made;
}

/* The bans of limits, and why some were not set. */
function bans(rows) {
  const unset = (row) => told(
    [row.limit_is_wrong, "the limit would ban more than a fifth of the keys that it serves"],
    [row.too_many, "max.bans_per_minute"], [row.failed, "max.bans"]).join("; ");
  return table([
    ["limit", "", (row) => limitName({name: row.limit, shadow: row.shadow || row.in_shadow > 0})],
    ["bans", "number", (row) => count(row.set + row.in_shadow)],
    ["requests banned", "number", (row) => count(row.banned)],
    ["first", "", (row) => (row.first ? shownTime(row.first) : "")],
    ["bans not set", "", unset],
  ], rows, "Bans");
}

function side(policy) {
  const notes = [...policy.notes, ...told(
    [policy.store_evictions, "states were dropped, and may have been needed: the embedded store was full"],
    [policy.store_overflows, "charges found no room: the embedded store was full"],
    [policy.ended_early, "requests ended early: too many were under way"])];
  const parts = {part: "denied", partTitle: "denied"};
  const made = section(["Policy ", element("code", "", policy.policy)]);
  if (notes.length > 0) {
    made.append(list(...notes));
  }
  if (policy.limits.length > 0) {
    made.append(element("h3", "", "By limit"), deniedTable("limit", limitName, policy.limits, {
      ...parts, whole: "judged", wholeTitle: "judged", caption: "By limit",
      colour: (limit) => (limit.shadow ? "shadow" : "denied"),
      last: [["first", "", (limit) => (limit.first ? shownTime(limit.first) : "")]],
    }));
  }
  if (policy.bans.length > 0) {
    made.append(element("h3", "", "Bans"), bans(policy.bans));
  }
  made.append(element("h3", "", "By route"), deniedTable("route", (route) => route.name, policy.routes, {
    ...parts, whole: "requests", wholeTitle: "requests", colour: () => "denied", last: [],
    caption: "By route",
  }));
  return made;
}

function reading(log) {
  return section("The log", list(
    `${count(log.lines)} lines`,
    ...told([log.unread, "could not be read"]),
    ...log.unread_samples.map(({file, line, text}) => element("code", "", `${file}:${line}: ${text}`)),
    ...told(
      [log.no_request, "were of no HTTP request"],
      [log.beyond_calendars, "requests were beyond the policy's calendars"],
      [log.out_of_order, "were out of order, and were put in their place"],
      [log.too_late, "came too late for that, and count as if they came then"],
      [log.logged_429, "were answered with 429 when they were logged"])));
}

/* Append @report to @to, and draw its charts. */
/* @heading: "h1", or "h2" where the report is a part of a page. */
export function showReport(report, to, heading) {
  const {log, policy, against} = report;
  const from = log.first || "1970-01-01T00:00:00Z";
  const until = log.last || from;
  let parts = [element("p", "", "There were no requests.")];
  if (log.requests > 0) {
    parts = against ? two(report) : one(report);
  }
  to.append(
    element(heading, "", policy.policy + (against ? ` against ${against.policy}` : "")),
    element("p", "quiet", `What ${against ? "these policies" : "this policy"} would have said from ` +
      `${shownTime(from)} to ${shownTime(until)} UTC (${duration(microseconds(until) - microseconds(from))}).`),
    cards(report), ...parts, side(policy), ...(against ? [side(against)] : []), reading(log));
  drawCharts();
}
