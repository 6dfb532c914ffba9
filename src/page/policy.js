/* The policy in force, what `check` warns of, and how its file differs. */

import {ask} from "./client.js";
import {count, element, list, section} from "./parts.js";

const LINES_MAX = 4000; /* of each side: the table of a longest common subsequence is their product */

/* The lines of @before and @after as ["same" | "removed" | "added", LINE]: a longest common
 * subsequence, between what both begin and end with. */
export function diffOf(before, after) {
  let from = 0;
  while (from < before.length && from < after.length && before[from] === after[from]) {
    from++;
  }
  let [endA, endB] = [before.length, after.length];
  while (endA > from && endB > from && before[endA - 1] === after[endB - 1]) {
    endA--;
    endB--;
  }
  const a = before.slice(from, endA);
  const b = after.slice(from, endB);
  const middle = a.length > LINES_MAX || b.length > LINES_MAX
    ? [...a.map((line) => ["removed", line]), ...b.map((line) => ["added", line])] : common(a, b);
  const same = (lines) => lines.map((line) => ["same", line]);
  return [...same(before.slice(0, from)), ...middle, ...same(before.slice(endA))];
}

function common(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(["same", a[i]]);
      i++;
      j++;
    } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      lines.push(["removed", a[i++]]);
    } else {
      lines.push(["added", b[j++]]);
    }
  }
  return lines;
}

const CONTEXT = 3;
const AGAIN_MS = 1000;
const MARKS = {same: "  ", removed: "- ", added: "+ "};

/* The lines near a change, with "…" for the others. */
function near(lines) {
  const isNear = lines.map(() => false);
  lines.forEach(([kind], i) => {
    if (kind !== "same") {
      isNear.fill(true, Math.max(0, i - CONTEXT), i + CONTEXT + 1);
    }
  });
  const shown = [];
  lines.forEach((line, i) => {
    if (isNear[i]) {
      shown.push(line);
    } else if (shown.at(-1)?.[0] !== "gap") {
      shown.push(["gap", "…"]);
    }
  });
  return shown;
}

export function policyView(page) {
  const said = element("div", "");
  const text = element("pre", "");
  text.tabIndex = 0;
  const reload = element("button", "", "Reload …");
  reload.type = "button";
  const again = element("button", "", "Read the file again");
  again.type = "button";
  const outcome = element("div", "");
  outcome.setAttribute("role", "status");
  let generation = null;
  let isShown = false;
  let isAsking = false;
  let isStale = false; /* it has to be asked for again */

  reload.addEventListener("click", async () => {
    if (await page.confirm("Read the policy's file anew, and put it in force?", "Reload")) {
      outcome.replaceChildren(element("p", "quiet", "…"));
      try {
        const answer = await ask("/v1/reload", {method: "POST"});
        outcome.replaceChildren(element("p", "done", `Generation ${count(answer.generation)} is in force.`));
      } catch (problem) {
        outcome.replaceChildren(element("p", "problem", [problem.message,
          ...(problem.answer?.messages ?? []).map((message) => message.text ?? message)].join("\n")));
      }
      draw();
    }
  });
  again.addEventListener("click", () => draw());

  const diagnostic = ({file, line, text: what, kind}) =>
    element("span", "", element("code", "", `${file}:${line}`), ` ${what}${kind ? ` [${kind}]` : ""}`);

  function diff(inForce, inFile) {
    const lines = near(diffOf(inForce.split("\n"), inFile.split("\n")));
    const shown = element("pre", "diff");
    shown.tabIndex = 0;
    shown.append(...lines.map(([kind, line]) =>
      element("span", kind, `${MARKS[kind] ?? ""}${line}\n`)));
    return section("What the file would change", shown);
  }

  async function draw() {
    if (!isShown) {
      return;
    }
    reload.hidden = !page.mayChange;
    if (isAsking) {
      isStale = true;
      return;
    }
    isAsking = true;
    isStale = false;
    let checked;
    try {
      checked = await ask("/v1/policy/check");
    } catch (problem) {
      said.replaceChildren(element("p", "problem", problem.message));
      isStale = problem.status === 503; /* others ask, too: it is free soon */
    }
    isAsking = false;
    if (isStale) {
      setTimeout(draw, AGAIN_MS);
    }
    if (checked === undefined) {
      return;
    }
    const {errors, warnings, in_force: inForce, in_file: inFile, differs, file} = checked;
    said.replaceChildren(
      element("p", "", "File ", element("code", "", file), ": ",
        errors.length > 0 ? element("span", "bad", `${count(errors.length)} errors; it would not be put in force`)
          : element("span", differs ? "bad" : "good", differs ? "it differs from what is in force" : "it is in force"),
        warnings.length > 0 ? `, ${count(warnings.length)} warnings` : ", no warnings"),
      errors.length > 0 ? section("Errors", list(...errors.map(diagnostic))) : "",
      warnings.length > 0 ? section("Warnings", list(...warnings.map(diagnostic))) : "",
      differs && inFile ? diff(inForce, inFile) : "");
    text.textContent = inForce;
  }

  return {
    elements: [
      section("The policy", element("div", "row", again, reload), outcome, said),
      section("In force", text),
    ],
    onLine(line) {
      if (line.generation !== generation) {
        generation = line.generation;
        draw();
      }
    },
    onAccess: draw,
    show() {
      isShown = true;
      draw();
    },
    hide() {
      isShown = false;
    },
  };
}
