/** Calls of the pool's API, and the messages of its refusals. */

/** A refusal, with a message for the user. */
export class Refused extends Error {
  constructor(problem) {
    super([problem.message, problem.hint].filter(Boolean).join(" "));
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field;
  }
}

/**
 * Returns `call(method, path, body)`, which promises the body of the response, and `openFile(path)`, which promises the
 * `Response` of a file. Both throw `Refused`.
 * @param request `request(path, init)` promises a `Response`
 * @param away the problem if the server does not answer: `message` and `hint`
 * @param foreign the problem if a `Response` is not the API's: `code` and `message`
 */
export function callsOf(request, away, foreign) {
  const answered = async (path, init) => {
    const answer = await request(path, init).catch(() => null);
    if (answer?.ok) return answer;
    const problem = await answer?.json().catch(() => null);
    if (answer === null) throw new Refused({ status: 0, code: "away", ...away });
    throw new Refused(problem?.code ? problem : { status: answer.status, ...foreign(answer) });
  };
  const call = async (method, path, body) => {
    const json =
      body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const answer = await answered(path, { method, ...json });
    if (answer.status === 204) return null;
    return answer.json().catch(() => {
      throw new Refused({ status: answer.status, ...foreign(answer) });
    });
  };
  return { call, openFile: (path) => answered(path, { method: "GET" }) };
}
