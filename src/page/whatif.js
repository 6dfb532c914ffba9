/* What if: what other numbers would have said to the requests of a log. */

import {ask, upload} from "./client.js";
import {
  button, count, drawCharts, dropCharts, duration, element, field, percent, section, selectOf,
} from "./parts.js";
import {showReport} from "./report.js";

const LOG_BYTES_MAX = 64 * 1024 * 1024;
const NUMBERS = ["rate", "burst", "max_wait", "shadow"]; /* what can be set of a limit */

export function whatIfView(page) {
  let limits = [];
  let file = null; /* a Blob with a name */
  let abort = null;
  let timer = null;

  const chosen = element("p", "quiet", "No log is chosen.");
  const picker = element("input", "");
  picker.type = "file";
  const drop = element("div", "drop", "Drop an access log here, or choose one: combined, JSON or logfmt, up to 64 MiB. ",
    field("whatif-file", "Log", picker));
  const pasted = element("textarea", "");
  pasted.placeholder = "or paste its lines here";
  pasted.spellcheck = false;
  const limit = element("select", "");
  const what = selectOf(NUMBERS);
  const value = element("input", "");
  value.placeholder = "20/minute; empty: the policy as it is";
  const run = element("button", "", "Replay");
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
  const recorded = element("div", "");

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

  const form = element("form", "", field("whatif-limit", "Limit", limit), field("whatif-what", "Number", what),
    field("whatif-value", "Instead", value, "grow"), run, cancel);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    replay(false);
  });
  cancel.addEventListener("click", () => abort?.abort());

  function setRunning(isRunning) {
    run.disabled = isRunning || !page.mayChange;
    cancel.hidden = !isRunning;
    bar.hidden = !isRunning;
  }

  function pathOf(isRecording) {
    const query = new URLSearchParams();
    if (value.value.trim() !== "" && limit.value !== "") {
      query.append("set", `${limit.value}.${what.value}=${value.value.trim()}`);
    }
    if (isRecording) {
      query.set("source", "recording");
    }
    return `/v1/replay${query.size > 0 ? `?${query}` : ""}`;
  }

  async function replay(isRecording) {
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
    said.replaceChildren(element("p", "quiet", "The log is being read …"));
    setRunning(true);
    const began = performance.now();
    try {
      const answer = await upload(pathOf(isRecording), isRecording ? new Blob([]) : file, (part) => {
        bar.value = part;
        said.replaceChildren(element("p", "quiet", `${percent(Math.round(part * 1000), 1000) || "0 %"} of the log was read.`));
      }, abort.signal);
      dropCharts(report);
      report.replaceChildren();
      showReport(answer, report);
      said.replaceChildren(element("p", "done",
        `${count(answer.log.lines)} lines in ${duration(Math.round(performance.now() - began) * 1000)}.`));
    } catch (problem) {
      said.replaceChildren(element("p", "problem",
        [problem.message, ...(problem.answer?.messages ?? []).map((message) => message.text ?? message)].join("\n")));
    }
    setRunning(false);
  }

  /* --- a recording of this proxy's own requests --- */

  async function record() {
    const seconds = selectOf(["30", "60", "120", "300"]);
    if (await page.confirm("Record this proxy's own requests, in its memory, without their keys?", "Record",
      field("ask-seconds", "Seconds", seconds))) {
      await page.tell(said, ask("/v1/recording", {method: "POST", body: {seconds: Number(seconds.value)}}),
        () => "Recording …");
      drawRecording();
    }
  }

  async function forget() {
    await page.tell(said, ask("/v1/recording", {method: "DELETE"}), () => "The recording is forgotten.");
    drawRecording();
  }

  async function drawRecording() {
    let state;
    try {
      state = await ask("/v1/recording");
    } catch (problem) {
      recorded.replaceChildren(element("p", "quiet", problem.message));
      return;
    }
    const isOn = state.state === "recording";
    const text = !isOn && !state.lines ? "Nothing was recorded."
      : `${count(state.lines ?? 0)} requests, ${count(Math.ceil((state.bytes ?? 0) / 1024))} KiB` +
        (isOn ? `, ${count(state.seconds_left ?? 0)} s to go` : ` (${state.state})`);
    recorded.replaceChildren(element("p", "", text), page.mayChange ? element("div", "row",
      isOn ? button("Stop and forget", forget) : button("Record …", record),
      state.lines > 0 && !isOn ? button("Replay it", () => replay(true)) : "",
      state.lines > 0 && !isOn ? button("Forget it", forget) : "") : "");
    clearTimeout(timer);
    timer = isOn ? setTimeout(drawRecording, 1000) : null;
  }

  const needsToken = element("p", "quiet", "To replay a log, give a token that may change something.");

  let generation = null;
  return {
    elements: [
      section("A log", drop, pasted, chosen),
      section("Another number", form, needsToken, bar, said),
      section("The requests of this proxy", recorded), report,
    ],
    async onLine(line) {
      if (line.generation !== generation) {
        generation = line.generation;
        ({limits} = await ask("/v1/limits").catch(() => ({limits})));
        limit.replaceChildren(...limits.map((rule) => element("option", "", rule.name)));
      }
    },
    onAccess() {
      needsToken.hidden = page.mayChange;
      setRunning(false);
    },
    show() {
      drawCharts();
      drawRecording();
    },
    hide() {
      clearTimeout(timer);
    },
  };
}
