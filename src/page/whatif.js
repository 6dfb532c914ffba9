/* What if: what other numbers would have said to the requests of a log. */

import {ask, upload} from "./client.js";
import {
  button, count, drawCharts, dropCharts, duration, element, field, section, selectOf, table,
} from "./parts.js";
import {showReport} from "./report.js";

const RECORDING_EVERY_MS = 1000;
const IDLE_EVERY_MS = 3000; /* another viewer may begin one */
const LOG_BYTES_MAX = 64 * 1024 * 1024;

/* The rates of a limit or a plan, and their bursts where @has_burst, as {key, title, was}. Several
 * are numbered. A burst that is not said is @burst, or else the rate's number. */
function ratesOf(key, title, rates, hasBurst, burst) {
  return rates.flatMap((item, i) => {
    const [number, place] = rates.length > 1 ? [`.${i + 1}`, ` ${i + 1}`] : ["", ""];
    const rate = String(item.rate ?? item);
    const made = [{key: `${key}rate${number}`, title: `${title}rate${place}`, was: rate}];
    if (hasBurst && rate !== "none") {
      made.push({key: `${key}burst${number}`, title: `${title}burst${place}`,
        was: String(item.burst ?? burst ?? rate.match(/^\d*/)[0])});
    }
    return made;
  });
}

/* What can be changed of the limit @rule, of /v1/limits, which @file, the policy, writes out. */
function numbersOf(rule, file) {
  const written = file.limits?.[rule.name] ?? {rate: file.limit ?? []};
  const hasBurst = rule.rates.some((rate) => rate.burst !== undefined);
  const plans = Object.entries(written.plans ?? {}).flatMap(([name, rates]) =>
    ratesOf(`plans.${name}.`, `plan ${name}, `, [rates].flat(), hasBurst));
  const wait = rule.algorithm === "leaky_bucket" ? {max_wait: written.max_wait ?? "none"} : {};
  const switches = file.limits ? {...wait, shadow: written.shadow ?? false} : {};
  return [
    ...ratesOf("", "", [written.rate].flat(), hasBurst, written.burst), ...plans,
    ...Object.entries(switches).map(([key, was]) => ({key, title: key, was: String(was)})),
  ];
}

export function whatIfView(page) {
  let numbers = new Map(); /* by limit, what can be changed of it */
  const changes = new Map(); /* by LIMIT.KEY, {limit, number, is} */
  let tellRead;
  const haveRead = new Promise((resolve) => { tellRead = resolve; }); /* numbers, once */
  let file = null; /* a Blob with a name */
  let abort = null;
  let timer = null;
  let isRunning = false;
  let isShown = false;

  const chosen = element("p", "quiet", "No log is chosen.");
  const picker = element("input", "");
  picker.type = "file";
  const drop = element("div", "drop", "Drop an access log here, or choose one: combined, JSON or logfmt, up to 64 MiB. ",
    field("whatif-file", "Log", picker));
  const pasted = element("textarea", "");
  pasted.placeholder = "or paste its lines here";
  pasted.spellcheck = false;
  const limit = element("select", "");
  const what = element("select", "");
  const value = element("input", "");
  value.placeholder = "20/minute";
  value.autocomplete = "off";
  value.spellcheck = false;
  const changed = element("div", "changed");
  const run = button("Replay", () => replay(false));
  const cancel = element("button", "", "Cancel");
  cancel.type = "button";
  cancel.hidden = true;
  const bar = element("progress", "");
  bar.max = 1;
  bar.hidden = true;
  bar.setAttribute("aria-label", "Progress of the replay");
  const said = element("div", "");
  said.setAttribute("role", "status");
  const report = element("div", "");

  function choose(blob, name) {
    file = blob;
    chosen.textContent = blob === null ? "No log is chosen." : `${name}, ${count(Math.ceil(blob.size / 1024))} KiB`;
  }

  picker.addEventListener("change", () => picker.files[0] && choose(picker.files[0], picker.files[0].name));
  pasted.addEventListener("input", () =>
    choose(pasted.value === "" ? null : new Blob([pasted.value]), "the pasted lines"));
  for (const [name, isOver] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", isOver);
    });
  }
  drop.addEventListener("drop", (event) => {
    const [dropped] = event.dataTransfer.files;
    if (dropped) {
      choose(dropped, dropped.name);
    }
  });

  /* What is dropped beside it is not opened in place of the page. */
  ["dragover", "drop"].forEach((name) => addEventListener(name, (event) => event.preventDefault()));

  const form = element("form", "", field("whatif-limit", "Limit", limit), field("whatif-what", "Number", what),
    field("whatif-value", "Instead", value, "grow"), element("button", "", "Change"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    haveRead.then(addChange);
    value.focus();
  });
  limit.addEventListener("change", drawNumbers);
  cancel.addEventListener("click", () => abort?.abort());

  /* --- the numbers that are changed --- */

  function drawNumbers() {
    const chosenKey = what.value;
    const offered = numbers.get(limit.value) ?? [];
    what.replaceChildren(...offered.map(({key, title, was}) => {
      const option = element("option", "", `${title}: ${was}`);
      option.value = key;
      return option;
    }));
    what.value = offered.some(({key}) => key === chosenKey) ? chosenKey : offered[0]?.key ?? "";
  }

  function addChange() {
    const is = value.value.trim();
    const number = numbers.get(limit.value)?.find(({key}) => key === what.value);
    value.value = "";
    if (is === "" || number === undefined) {
      return;
    }
    const place = `${limit.value}.${number.key}`;
    if (is === number.was) {
      changes.delete(place);
    } else {
      changes.set(place, {limit: limit.value, number, is});
    }
    drawChanges();
  }

  function putBack(places) {
    places.forEach((place) => changes.delete(place));
    drawChanges();
    value.focus();
  }

  function drawChanges() {
    const rows = [...changes].map(([place, change]) => ({place, ...change}));
    changed.replaceChildren(rows.length === 0
      ? element("p", "quiet", "No number is changed: the log is replayed under the policy in force.")
      : table([
        ["limit", "", (row) => row.limit],
        ["number", "", (row) => row.number.title],
        ["was", "", (row) => element("code", "", row.number.was)],
        ["is", "", (row) => element("code", "", row.is)],
        ["", "", (row) => {
          const made = button("Put back", () => putBack([row.place]));
          made.setAttribute("aria-label", `Put back ${row.limit}, ${row.number.title}`);
          return element("span", "actions", made);
        }],
      ], rows, "Numbers that are changed"),
    rows.length > 1 ? element("div", "row", button("Put all back", () => putBack([...changes.keys()]))) : "");
  }

  /* The numbers of the policy in force. Of what is changed stays what there still is. */
  async function readNumbers() {
    const [{limits}, file] = await Promise.all([ask("/v1/limits"), ask("/v1/policy")]);
    numbers = new Map(limits.map((rule) => [rule.name, numbersOf(rule, file)]));
    for (const [place, change] of changes) {
      const number = numbers.get(change.limit)?.find(({key}) => key === change.number.key);
      if (number === undefined || number.was === change.is) {
        changes.delete(place);
      } else {
        change.number = number;
      }
    }
    const chosenLimit = limit.value;
    limit.replaceChildren(...limits.map((rule) => element("option", "", rule.name)));
    limit.value = numbers.has(chosenLimit) ? chosenLimit : limits[0]?.name ?? "";
    drawNumbers();
    drawChanges();
    tellRead();
  }

  function setRunning(isSo) {
    isRunning = isSo;
    run.disabled = isRunning || !page.mayChange;
    switches.replay.disabled = isRunning;
    cancel.hidden = !isRunning;
    bar.hidden = !isRunning;
  }

  function pathOf(isRecording) {
    const query = new URLSearchParams();
    for (const [place, {is}] of changes) {
      query.append("set", `${place}=${is}`);
    }
    if (isRecording) {
      query.set("source", "recording");
    }
    return `/v1/replay${query.size > 0 ? `?${query}` : ""}`;
  }

  /* That @part of the log was read, which is read out at each tenth. */
  function tellReading(part) {
    const tenths = Math.floor(part * 10);
    const text = tenths === 10 ? "The log was read; the report is being made …"
      : `The log is being read: ${tenths * 10} % …`;
    if (said.textContent !== text) {
      said.replaceChildren(element("p", "quiet", text));
    }
  }

  async function replay(isRecording) {
    await haveRead;
    addChange(); /* that is typed, and not listed yet */
    if (!isRecording && file === null) {
      said.replaceChildren(element("p", "problem", "Choose a log first."));
      return;
    }
    if (!isRecording && file.size > LOG_BYTES_MAX) {
      said.replaceChildren(element("p", "problem", "The log is longer than 64 MiB: cut it, or use sluice replay."));
      return;
    }
    abort = new AbortController();
    bar.removeAttribute("value");
    tellReading(0);
    setRunning(true);
    const began = performance.now();
    try {
      const answer = await upload(pathOf(isRecording), isRecording ? new Blob([]) : file, (part) => {
        bar.value = part;
        tellReading(part);
      }, abort.signal);
      dropCharts(report);
      report.replaceChildren();
      showReport(answer, report, "h2");
      said.replaceChildren(element("p", "done",
        `${count(answer.log.lines)} lines in ${duration(Math.round(performance.now() - began) * 1000)}.`));
    } catch (problem) {
      said.replaceChildren(element("p", "problem",
        [problem.message, ...(problem.answer?.messages ?? []).map((message) => message.text ?? message)].join("\n")));
    }
    setRunning(false);
  }

  /* --- a recording of this proxy's own requests --- */

  const switches = {
    record: button("Record …", record),
    stop: button("Stop", stop),
    replay: button("Replay it", () => replay(true)),
    forget: button("Forget it", forget),
  };
  const recordingSaid = element("div", "");
  recordingSaid.setAttribute("role", "status");
  const recorded = element("p", "");
  const recordButtons = element("div", "row", ...Object.values(switches));
  const needsTokenToRecord = element("p", "quiet", "To record requests, give a token that may change something.");

  async function record() {
    const seconds = selectOf(["30", "60", "120", "300"]);
    if (await page.confirm("Record this proxy's own requests, in its memory, without their keys?", "Record",
      field("ask-seconds", "Seconds", seconds))) {
      await changeRecording("/v1/recording", {method: "POST", body: {seconds: Number(seconds.value)}},
        "Requests are being recorded.");
      switches.stop.focus();
    }
  }

  async function stop() {
    await changeRecording("/v1/recording/stop", {method: "POST"}, "The recording is stopped.");
    (switches.replay.hidden ? switches.record : switches.replay).focus();
  }

  async function forget() {
    if (await page.confirm("Forget what is recorded?", "Forget")) {
      await changeRecording("/v1/recording", {method: "DELETE"}, "The recording is forgotten.");
      switches.record.focus();
    }
  }

  async function changeRecording(path, how, done) {
    await page.tell(recordingSaid, ask(path, how), () => done);
    await drawRecording();
  }

  /* What there is: requests, KiB, and whether there will be more. */
  function textOf(state) {
    const size = `${count(state.lines)} requests, ${count(Math.ceil(state.bytes / 1024))} KiB`;
    const most = `${state.bytes_max / 1024 / 1024} MiB`;
    const left = state.too_long > 0 ? ` ${count(state.too_long)} requests were too long to record.` : "";
    return {
      none: "Nothing is recorded.",
      recording: `Recording: ${size} of ${most} at most, ${duration(state.seconds_left * 1e6)} to go.`,
      complete: `Recorded: ${size}.`,
      full: `Recorded: ${size}. It ended early: its ${most} are full.`,
    }[state.state] + left;
  }

  async function drawRecording() {
    let state;
    clearTimeout(timer);
    try {
      state = await ask("/v1/recording");
      recorded.textContent = textOf(state);
    } catch (problem) {
      state = {state: "none", lines: 0};
      recorded.textContent = problem.message;
    }
    const isOn = state.state === "recording";
    switches.record.hidden = isOn;
    switches.stop.hidden = !isOn;
    switches.replay.hidden = state.lines === 0;
    switches.forget.hidden = isOn || state.state === "none";
    clearTimeout(timer);
    if (isShown) {
      timer = setTimeout(drawRecording, isOn ? RECORDING_EVERY_MS : IDLE_EVERY_MS);
    }
  }

  const needsToken = element("p", "quiet", "To replay a log, give a token that may change something.");

  let generation = null;
  return {
    elements: [
      section("A log", drop, pasted, chosen),
      section("The requests of this proxy", recorded, recordButtons, recordingSaid, needsTokenToRecord),
      section("Other numbers", form, changed, needsToken, element("div", "row", run, cancel), bar, said), report,
    ],
    async onLine(line) {
      if (line.generation !== generation) {
        generation = line.generation;
        await readNumbers().catch(() => { generation = null; });
      }
    },
    onAccess() {
      needsToken.hidden = page.mayChange;
      needsTokenToRecord.hidden = page.mayChange;
      recordButtons.hidden = !page.mayChange;
      setRunning(isRunning); /* one that is under way goes on when the stream begins anew */
    },
    show() {
      isShown = true;
      drawCharts();
      drawRecording();
    },
    hide() {
      isShown = false;
      clearTimeout(timer);
    },
  };
}
