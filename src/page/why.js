/* Why: what becomes of a request under the policy in force, and how full its limits are. */

import {ask, askEach} from "./client.js";
import {count, duration, element, field, list, section, selectOf, table} from "./parts.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const OUTCOMES = {
  judges: "judges it", excepted: "makes an exception", skipped: "does not apply: it lacks the key",
  denied: "denies it: it lacks the key", ambiguous: "refuses it: the key can be read in two ways",
};

/* "a: 1" lines as a list; empty lines are none. */
const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

/* "sub=alice" lines as an object, with a list where a name comes again. */
function claimsOf(text) {
  const claims = Object.create(null);
  for (const line of linesOf(text)) {
    const at = line.indexOf("=");
    const [name, value] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
    claims[name] = name in claims ? [claims[name], value].flat() : value;
  }
  return claims;
}

export function whyView() {
  const method = selectOf(METHODS);
  const url = element("input", "code");
  url.value = "/";
  url.required = true;
  url.spellcheck = false;
  const from = element("input", "code");
  from.placeholder = "127.0.0.1";
  const scheme = selectOf(["as in the URL", "http", "https"]);
  const version = selectOf(["HTTP/1.1", "HTTP/2"]);
  const headers = element("textarea", "");
  headers.placeholder = "X-Api-Key: k\nX-Forwarded-For: 198.51.100.7";
  headers.spellcheck = false;
  const claims = element("textarea", "");
  claims.placeholder = "sub=alice\nplan=gold";
  claims.spellcheck = false;
  const tenant = element("input", "code");
  tenant.placeholder = "gold";
  tenant.spellcheck = false;
  const said = element("div", "");
  said.setAttribute("role", "status");
  const form = element("form", "",
    field("why-method", "Method", method), field("why-url", "URL or path", url, "most"),
    field("why-from", "From the address", from), field("why-scheme", "Scheme", scheme),
    field("why-version", "Version", version), field("why-tenant", "Plan of the tenant", tenant),
    field("why-headers", "Header fields, one a line", headers, "half"),
    field("why-claims", "Claims of a valid token, one a line", claims, "half"));
  form.append(element("button", "", "Explain"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    explain();
  });

  function requestOf() {
    const made = {method: method.value, url: url.value.trim()};
    if (from.value.trim()) {
      made.from = from.value.trim();
    }
    if (scheme.selectedIndex > 0) {
      made.scheme = scheme.value;
    }
    if (version.selectedIndex > 0) {
      made.http2 = true;
    }
    const fields = linesOf(headers.value);
    if (fields.length > 0) {
      made.headers = fields;
    }
    if (claims.value.trim()) {
      made.claims = claimsOf(claims.value);
    }
    if (tenant.value.trim()) {
      made.tenant = tenant.value.trim();
    }
    return made;
  }

  /* The states of the keys of @limits, by limit and key: of the rates that have such a name. */
  async function statesOf(limits, rules) {
    const states = new Map();
    await askEach(limits.filter((limit) => limit.key), async (limit) => {
      const rule = rules.find((one) => one.rates.some((rate) => rate.name === limit.name));
      if (!rule) {
        return;
      }
      try {
        const path = `/v1/limits/${encodeURIComponent(rule.name)}/keys/${encodeURIComponent(limit.key)}`;
        const {rates, ban, plan} = await ask(path);
        states.set(limit, {...rates.find((rate) => rate.name === limit.name), ban, plan});
      } catch {
        states.set(limit, null); /* it is not known */
      }
    });
    return states;
  }

  const planOf = (one) => one.plan?.name ?? one.plan ?? "";

  /* What is counted of a key is shown as its own plan has it, not that which a header or a token names. */
  const known = (states, limit, shown) => {
    const state = states.get(limit);
    return state && planOf(state) === planOf(limit) ? shown(state) : "–";
  };

  function limitTable(limits, states) {
    return table([
      ["limit", "", (limit) => limit.name + (limit.shadow ? " (shadow)" : "")],
      ["what it does", "", (limit) => OUTCOMES[limit.outcome] ?? limit.outcome],
      ["key", "", (limit) => (limit.key ? element("code", "", limit.key) : "–")],
      ["plan", "", planOf],
      ["cost", "number", (limit) => (limit.cost === undefined ? "–" : count(limit.cost))],
      ["remaining now", "number", (limit) => known(states, limit, (state) => `${count(state.remaining)} of ${count(state.limit)}`)],
      ["now", "", (limit) => states.get(limit)?.ban?.kind ?? known(states, limit, ({allowed}) =>
        element("span", allowed ? "good" : "bad", allowed ? "would pass" : "would be denied"))],
      ["wait", "number", (limit) => known(states, limit, (state) =>
        (state.retry_after_ms === null ? "–" : duration(state.retry_after_ms * 1000)))],
    ], limits, "Limits");
  }

  const because = {
    path: "the path", method: "the method", host: "the host", client: "the client's address",
    header: "a header field", query: "a parameter", scheme: "the scheme",
    client_cert: "the client's certificate", jwt: "a claim", country: "the country", asn: "the network",
  };

  function answerOf({answer, route}) {
    if (answer.passes) {
      return answer.status ? `It is answered with ${answer.status} by the route, if its limits allow it.`
        : `It is forwarded by the route ${route}, if its limits allow it.`;
    }
    return `It is refused with ${answer.status ?? "no answer"}${answer.reason ? `: ${answer.reason}` : ""}` +
      `${answer.limit ? `, by the limit ${answer.limit}` : ""}.`;
  }

  async function explain() {
    said.replaceChildren(element("p", "quiet", "…"));
    let explained;
    let states;
    try {
      const [answer, {limits: rules}] = await Promise.all([
        ask("/v1/explain", {method: "POST", body: requestOf()}), ask("/v1/limits")]);
      explained = answer;
      states = await statesOf(answer.limits ?? [], rules);
    } catch (problem) {
      said.replaceChildren(element("p", "problem",
        (problem.answer?.messages ?? [problem.message]).join("\n")));
      return;
    }
    show(explained, states);
  }

  function show(explained, states) {
    const {request, client, routes, limits, upstream} = explained;
    const walked = routes?.filter((route) => !route.matches) ?? [];
    said.replaceChildren(
      section("Answer", element("p", "", answerOf(explained))),
      section("Request", list(
        ...(request ? [`${request.method} ${request.target}, HTTP/${request.version}, host ${request.host ?? "none"}`] : []),
        ...(request?.path ? [`matched as ${request.path}`] : []),
        ...(client ? [`client ${client.address}` + (client.field ? `, by ${client.field}` : "") +
          (client.peer !== client.address ? `, of the peer ${client.peer}` : "")] : []),
        ...(explained.fault ? [explained.fault] : []))),
      explained.route ? section(["Route ", element("code", "", explained.route)],
        walked.length > 0 ? list(...walked.slice(0, 50).map((route) =>
          `not ${route.name}: ${because[route.because] ?? route.because ?? "it"} does not match`)) : "",
        walked.length > 50 ? element("p", "quiet", `${count(walked.length - 50)} more do not match.`) : "") : "",
      limits?.length > 0 ? section("Limits", limitTable(limits, states)) : "",
      upstream ? section("Upstream", list(`${upstream.name}, path ${upstream.path}`,
        ...(upstream.servers ?? []).map((server) => (typeof server === "string" ? server : server.url ?? "")))) : "");
  }

  return {
    elements: [section("A request", form), said],
  };
}
