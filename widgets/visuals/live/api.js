/** Calls of the pool's API, and the messages of its refusals. */

import { Reads } from "./reads.js";

const ANSWER_MS = 30_000;
const TRIES = 2;
const UNREACHED = new Set([502, 503, 504]);

/** The code of a refusal without an answer: the server is away, or what stands before it says so. */
export const AWAY = "away";

/** A refusal, with a message for the user: `what` was refused, and a `hint`. */
export class Refused extends Error {
  constructor(problem) {
    super([problem.message, problem.hint].filter(Boolean).join(" "));
    this.what = problem.message;
    this.hint = problem.hint ?? "";
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field;
  }
}

/**
 * Returns `call(method, path, body)`, which promises the body of the response, `openFile(path)`, which promises the
 * `Response` of a file, and the `Reads`. Both throw `Refused`. A read without an answer in time is tried once more.
 * @param request `request(path, init)` promises a `Response`
 * @param away the problem if the server does not answer: `message` and `hint`
 * @param foreign the problem if a `Response` is not the API's: `code` and `message`
 */
export function callsOf(request, away, foreign) {
  const reads = new Reads();
  const answered = async (asking) => {
    const answer = await asking.catch(() => null);
    if (answer?.ok) return answer;
    const problem = await answer?.json().catch(() => null);
    if (answer === null) throw new Refused({ status: 0, code: AWAY, ...away });
    if (!problem?.code && UNREACHED.has(answer.status))
      throw new Refused({ status: answer.status, code: AWAY, ...away });
    throw new Refused(problem?.code ? problem : { status: answer.status, ...foreign(answer) });
  };
  const call = async (method, path, body) => {
    const json =
      body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const init = { method, ...json };
    const asking = method === "GET" ? reads.noted(readInTime(request, path, init)) : request(path, init);
    const answer = await answered(asking);
    if (answer.status === 204) return null;
    return answer.json().catch(() => {
      throw new Refused({ status: answer.status, ...foreign(answer) });
    });
  };
  return { call, openFile: (path) => answered(request(path, { method: "GET" })), reads };
}

/** Promises the `Response` of a read; rejects if none comes in time. */
async function readInTime(request, path, init) {
  for (let tried = 1; ; tried += 1) {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), ANSWER_MS);
    try {
      return await request(path, { ...init, signal: limit.signal });
    } catch (error) {
      if (!limit.signal.aborted || tried === TRIES) throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}
