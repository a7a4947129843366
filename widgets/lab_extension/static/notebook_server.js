/** The page's own notebook server, which passes requests on to the pool. */

import { callsOf } from "./visuals/live/api.js";

const NO_EXTENSION =
  "This notebook server has no way to the pool: its package springtide[widgets] is missing or disabled.";
const GONE = "The notebook server does not answer.";

export class NotebookServer {
  /** @param connection JupyterLab's `ServerConnection`, which adds the log-in and the XSRF token */
  constructor(connection) {
    const settings = connection.makeSettings();
    const request = (path, init) => connection.makeRequest(`${settings.baseUrl}springtide/${path}`, init, settings);

    const refused = ({ status }) => ({
      code: "no_extension",
      message: status === 404 ? NO_EXTENSION : `The notebook server answered ${status}.`,
    });
    const { call: ask } = callsOf(request, { message: GONE }, refused);

    /** Calls of the pool's API. */
    Object.assign(
      this,
      callsOf((path, init) => request(`api/v1/${path}`, init), { message: GONE }, refused),
    );

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

    /** Opens the event stream. */
    this.open = async (headers, signal) => request("api/v1/events", { headers, signal, cache: "no-store" });
  }
}
