/* The client of the admin API: requests with the token, and the stream of what is counted. */

const TOKEN = "sluice-token"; /* in the session's storage: gone with the tab */
const SILENCE_MS = 3500; /* of a stream with a line a second */
const RETRY_MS = [500, 1000, 1000, 2000];

export class Problem extends Error {
  constructor(status, detail, answer) {
    super(detail);
    this.status = status; /* 0: there was no answer */
    this.answer = answer;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
  forget: () => sessionStorage.removeItem(TOKEN),
};

function fields(type) {
  const made = {};
  if (token.get()) {
    made.Authorization = `Bearer ${token.get()}`;
  }
  if (type) {
    made["Content-Type"] = type;
  }
  return made;
}

/* What a problem document says, or else the status. */
export function problemOf(status, text) {
  try {
    const answer = JSON.parse(text);
    return new Problem(status, answer.detail || answer.title || `status ${status}`, answer);
  } catch {
    return new Problem(status, `status ${status}`, null);
  }
}

let onRefused = () => {};

/* Call @listener when a token is needed, or is not right. */
export const whenRefused = (listener) => { onRefused = listener; };

/* The JSON that is answered. Throws a Problem. */
export async function ask(path, {method = "GET", body, signal} = {}) {
  let answer;
  let text;
  try {
    answer = await fetch(path, {
      method, signal, cache: "no-store", credentials: "omit", redirect: "error",
      headers: fields(method === "GET" ? "" : "application/json"),
      body: method === "GET" || method === "DELETE" ? undefined : JSON.stringify(body ?? {}),
    });
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Problem(0, "the proxy does not answer", null);
  }
  if (answer.status === 401) {
    onRefused();
  }
  if (!answer.ok) {
    throw problemOf(answer.status, text);
  }
  return JSON.parse(text);
}

/* Send @content, a Blob or nothing, with its progress from 0 to 1. The JSON that is answered. */
export function upload(path, content, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(fields("application/octet-stream"))) {
      request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => onProgress(event.total ? event.loaded / event.total : 0);
    request.onload = () => {
      if (request.status === 401) {
        onRefused();
      }
      if (request.status < 200 || request.status > 299) {
        reject(problemOf(request.status, request.responseText));
      } else {
        resolve(JSON.parse(request.responseText));
      }
    };
    request.onerror = () => reject(new Problem(0, "the proxy does not answer, or refused the log", null));
    request.onabort = () => reject(new Problem(0, "cancelled", null));
    signal?.addEventListener("abort", () => request.abort());
    request.send(content);
  });
}

/* --- the stream --- */

const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function readLines(answer, onLine, alive) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) {
      return;
    }
    alive();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.forEach((line) => onLine(JSON.parse(line)));
  }
}

/* One connection, until it ends. Throws a Problem. */
async function follow(onOpen, onLine, abort) {
  let timer = setTimeout(() => abort.abort(), SILENCE_MS);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => abort.abort(), SILENCE_MS);
  };
  try {
    const answer = await fetch("/v1/live", {
      headers: fields(), cache: "no-store", credentials: "omit", signal: abort.signal,
    });
    if (!answer.ok) {
      if (answer.status === 401) {
        onRefused();
      }
      throw problemOf(answer.status, await answer.text());
    }
    clearTimeout(timer); /* what is read first may take its time on a slow line */
    await onOpen();
    alive();
    await readLines(answer, onLine, alive);
  } finally {
    clearTimeout(timer);
  }
}

let current = null;

/* Follow the stream for ever: onOpen() at each connection, onLine() for each line, onLost(problem)
 * when there is none. A stream that the proxy ends, as a reload does, is asked for again. */
export async function live(onOpen, onLine, onLost) {
  for (let failures = 0; ; failures++) {
    current = new AbortController();
    try {
      await follow(async () => { failures = 0; await onOpen(); }, onLine, current);
    } catch (error) {
      onLost(error instanceof Problem ? error : new Problem(0, "the proxy does not answer", null));
    }
    await wait(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
  }
}

/* Begin anew, as with another token. */
export const reconnect = () => current?.abort();
