/* The client of the admin API: requests with the token, and the stream of what is counted. */

const TOKEN = "sluice-token"; /* in the session's storage: gone with the tab */
const SILENCE_MS = 3500; /* of a stream with a line a second */
const RETRY_MS = [500, 1000, 1000, 2000];
const ANSWER_MS = 40000; /* the proxy answers each request within 30 s */
const UNSEEN_MS = 1000;
/* A browser has six connections to a server, for all its tabs: one stream and these leave some. */
const ASKED_AT_ONCE = 3;

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
export async function ask(path, {method = "GET", body} = {}) {
  let answer;
  let text;
  try {
    answer = await fetch(path, {
      method, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(ANSWER_MS),
      headers: fields(method === "GET" ? "" : "application/json"),
      body: method === "GET" || method === "DELETE" ? undefined : JSON.stringify(body ?? {}),
    });
    text = await answer.text();
  } catch {
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

/* What @asked(), which asks for something, gives for each of @items, in their order. Few are asked at once,
 * so that others find a connection. */
export async function askEach(items, asked) {
  const given = [];
  let next = 0;
  const askOn = async () => {
    while (next < items.length) {
      const i = next++;
      given[i] = await asked(items[i]);
    }
  };
  await Promise.all(Array.from({length: ASKED_AT_ONCE}, askOn));
  return given;
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
    abort.abort(); /* whatever ended it: a body that is not read keeps its connection */
  }
}

/* --- a tab that is not seen follows no stream: its connection is one of the few of the browser --- */

let unseenTimer = null;

function onSeen() {
  clearTimeout(unseenTimer);
  if (document.hidden) {
    unseenTimer = setTimeout(() => current?.abort(), UNSEEN_MS);
  }
}

const whenSeen = () => new Promise((resolve) => {
  const look = () => {
    if (!document.hidden) {
      document.removeEventListener("visibilitychange", look);
      resolve();
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
});

let current = null;

/* Follow the stream for ever while the tab is seen: onOpen() at each connection, onLine() for each line, onLost(problem)
 * when there is none. A stream that the proxy ends, as a reload does, is asked for again. */
export async function live(onOpen, onLine, onLost) {
  document.addEventListener("visibilitychange", onSeen);
  for (let failures = 0; ; failures++) {
    await whenSeen();
    current = new AbortController();
    try {
      await follow(async () => { failures = 0; await onOpen(); }, onLine, current);
    } catch (error) {
      const why = document.hidden ? "the tab is not seen" : "the proxy does not answer";
      onLost(error instanceof Problem ? error : new Problem(0, why, null));
    }
    await wait(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
  }
}

/* Begin anew, as with another token. */
export const reconnect = () => current?.abort();
