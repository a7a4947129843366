/** The page's own notebook server, which forwards requests to the pool. */

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

    /** The parameters of a notebook and the errors of typed ones, or why a cell cannot be sent. */
    this.preview = (sight) => ask("POST", "preview", sight);

    /** The data of a form, for a notebook in `directory`. */
    this.form = (directory) => ask("GET", `form?${new URLSearchParams({ directory })}`);

    /** The errors of the typed options, and the estimate for the job. */
    this.review = (typed) => ask("POST", "form", { typed });

    /** The environment of a job of a command, a script or a notebook; nothing is submitted. */
    this.environment = (work, typed) => ask("POST", "environment", { ...work, typed });

    /** Submits a command, a script or a notebook with the typed options; returns its id, and the notes for its user. */
    this.sendTyped = (work, typed) => ask("POST", "send", { ...work, typed });

    /** Opens a terminal in a running job; returns its name on this server. */
    this.openTerminal = (job) => ask("POST", "terminals", { job });

    /** Those `ids` of notices that no other page of this server has asked for. */
    this.claimNotices = (ids) => ask("POST", "notices", { notices: ids });

    /** Begins to make an environment of the server's user. */
    this.makeEnvironment = (name, packages) => ask("POST", "environments", { name, packages });

    /** How far an environment is. */
    this.environmentProgress = (name) => ask("GET", `environments/${encodeURIComponent(name)}`);

    /** Whether the server answers. */
    this.answers = () =>
      connection.makeRequest(`${settings.baseUrl}api/status`, {}, settings).then(
        ({ ok }) => ok,
        () => false,
      );

    /** The address of the TensorBoard of jobs. */
    this.boardOf = (ids) => `${settings.baseUrl}springtide/tensorboard/${ids.join("-")}/`;

    /** The source of the event stream: its address, and the headers that JupyterLab would send there now. */
    this.events = () => {
      const address = new URL(`${settings.baseUrl}springtide/api/v1/events`, window.location.href).href;
      let headers = {};
      const keep = async (asked) => {
        headers = Object.fromEntries(asked.headers);
        return new Response();
      };
      connection.makeRequest(address, {}, { ...settings, fetch: keep });
      return { address, headers };
    };
  }
}
