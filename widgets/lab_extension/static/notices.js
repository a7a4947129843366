/**
 * Notices of one's jobs in JupyterLab: one for each event, and one for all events of a burst. Every open page lists them under
 * its bell; they pop up in the page with the focus, and in the first one that has heard of them.
 */

import { burstWords, claimed, GATHERED_MS, NOTHING } from "./visuals/base/bursts.js";
import { noticeOf } from "./whole_words.js";

const CHANNEL = "jupyterlab";
const MOST_WAITING = 1000;
const SHOWN_MS = 10_000;
const FAILURE_SHOWN_MS = 30_000;
/** Of a notice that is listed and does not pop up. */
const LISTED = 0;
const TYPES = { failed: "error", paused: "warning", "time-limit": "warning", fault: "warning", workspace: "warning" };
export class Notices {
  /**
   * @param apputils JupyterLab's module with its manager of notifications and its dialogs
   * @param server `NotebookServer`
   * @param open `job(id, part)` opens a job, at its `log` or as a whole; `jobs()` opens the table of jobs
   */
  constructor(apputils, server, open) {
    this.apputils = apputils;
    this.Notification = apputils.Notification;
    this.server = server;
    this.open = open;
    this.waiting = [];
    this.timer = null;
    this.burst = null;
    this.singles = new Map();
    this.state = NOTHING;
    document.addEventListener("visibilitychange", () => this.#soon());
  }

  /** Shows a notification of the event stream: at once, or when the page comes into sight. */
  hear(notice) {
    if (!notice.channels.includes(CHANNEL)) return;
    this.waiting = [...this.waiting, notice].slice(-MOST_WAITING);
    this.#soon();
  }

  #soon() {
    if (document.hidden || !this.waiting.length) return;
    this.timer ??= setTimeout(() => this.#show(), GATHERED_MS);
  }

  async #show() {
    const notices = this.waiting;
    this.waiting = [];
    this.timer = null;
    const ids = notices.map(({ id }) => id);
    const { ids: first } = await this.server.claimNotices(ids).catch(() => ({ ids }));
    const popsUp = (id) => document.hasFocus() || first.includes(id);
    const { claim, state } = claimed(notices, Date.now(), this.state);
    this.state = state;
    if (claim.burst) this.#putBurst(claim.burst, ids.some(popsUp));
    for (const notice of claim.notices) this.#putOne(notice, popsUp(notice.id));
    for (const id of claim.replaced) this.#dismiss(id);
  }

  #putOne({ id, job, event, title, text }, popsUp) {
    const actions = job
      ? [
          { label: "Open", caption: "Open the job", callback: () => this.open.job(job) },
          { label: "Log", caption: "Open the job's log", callback: () => this.open.job(job, "log") },
        ]
      : [];
    const autoClose = event === "failed" ? FAILURE_SHOWN_MS : SHOWN_MS;
    const notice = noticeOf(this.apputils, `${title} ${text}`.trim(), actions);
    const shown = this.Notification.emit(notice.message, TYPES[event] ?? "info", {
      actions: notice.actions,
      autoClose: popsUp ? autoClose : LISTED,
    });
    this.singles.set(id, shown);
    if (this.singles.size > MOST_WAITING) this.singles.delete(this.singles.keys().next().value);
  }

  /** Counts the events of a burst in one notice, which changes while further ones follow. */
  #putBurst({ began, counts }, popsUp) {
    const open = { label: "My Jobs", caption: "Open the table of your jobs", callback: () => this.open.jobs() };
    const { message, actions } = noticeOf(this.apputils, burstWords(counts), [open]);
    const type = counts.failed ? "error" : "info";
    const options = { actions, autoClose: popsUp ? FAILURE_SHOWN_MS : LISTED };
    const isShown =
      this.burst?.began === began && this.Notification.update({ id: this.burst.id, message, type, ...options });
    if (!isShown) this.burst = { began, id: this.Notification.emit(message, type, options) };
  }

  #dismiss(id) {
    if (this.singles.has(id)) this.Notification.dismiss(this.singles.get(id));
    this.singles.delete(id);
  }
}
