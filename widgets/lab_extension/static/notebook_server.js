/** The page's own notebook server, which passes requests on to the pool. */

const NO_EXTENSION =
  "This notebook server has no way to the pool: its package springtide[widgets] is missing or disabled.";
const GONE = "The notebook server does not answer.";

/** A refusal, in words. */
class Refused extends Error {
  constructor(problem) {
    super([problem.message, problem.hint].filter(Boolean).join(" "));
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field;
  }
}

export class NotebookServer {
  /** @param connection JupyterLab's `ServerConnection`, which adds the log-in and the XSRF token */
  constructor(connection) {
    const settings = connection.makeSettings();
    const request = (path, init) => connection.makeRequest(`${settings.baseUrl}springtide/${path}`, init, settings);

    /** Calls the API and answers its body. Throws an error with `status`, `code` and `message`. */
    this.call = (method, path, body) => ask(method, `api/v1/${path}`, body);

    /** Sends a script or a notebook as a job; answers its id, and what its user should know. */
    this.send = (path, options) => ask("POST", "send", { path, options });

    /** What to draw a form of, for a notebook in `directory`. */
    this.form = (directory) => ask("GET", `form?${new URLSearchParams({ directory })}`);

    /** What is wrong with the options that are typed, and what to expect of the job. */
    this.review = (typed) => ask("POST", "form", { typed });

    /** What a job of a command, a script or a notebook would run with; nothing is sent. */
    this.environment = (work, typed) => ask("POST", "environment", { ...work, typed });

    /** Sends a command, a script or a notebook with options as they are typed. */
    this.sendTyped = (work, typed) => ask("POST", "send", { ...work, typed });

    const ask = async (method, path, body) => {
      const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
      const answer = await request(path, init).catch(() => null);
      const content = await contentOf(answer);
      if (answer?.ok && content !== null) return content;
      throw refusal(answer, content);
    };

    /** Opens a file of the API: answers the `Response` whose body it is. Throws as `call` does. */
    this.openFile = async (path) => {
      const answer = await request(`api/v1/${path}`, { method: "GET" }).catch(() => null);
      if (answer?.ok) return answer;
      throw refusal(answer, await contentOf(answer));
    };

    /** Opens the event stream. */
    this.open = async (headers, signal) => request("api/v1/events", { headers, signal, cache: "no-store" });
  }
}

/** The JSON of an answer, null for none. */
async function contentOf(answer) {
  return (await answer?.json().catch(() => null)) ?? null;
}

/** What became of a request that was not answered as it should be. */
function refusal(answer, content) {
  if (answer === null) return new Refused({ status: 0, code: "away", message: GONE });
  return new Refused(content?.code ? content : { status: answer.status, code: "no_extension", message: words(answer) });
}

function words({ status }) {
  return status === 404 ? NO_EXTENSION : `The notebook server answered ${status}.`;
}
